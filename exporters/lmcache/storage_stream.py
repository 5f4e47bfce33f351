"""The record stream of the storage hook in one worker: what LMCache read from L2 and wrote there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from exporters.lmcache.records import Size
from exporters.oddities import Finding
from exporters.page_state import Told
from exporters.storage_reads import StorageRead, StorageReads
from exporters.streams import StreamReading
from exporters.vllm.hook import BlockTokens
from exporters.wire import Count, Seconds, decode_list, latest_time
from tierscope.domain.events import BlockAction, BlockEvent, LedgerEntry, TierTransfer, TransferAction
from tierscope.domain.tiers import Tier
from tierscope.domain.units import block_hash_of_bytes

NOT_FOUND = "not_found"
"""Why a chunk that LMCache's lookup found was not read: it is gone since, or there was no room for it."""

NOT_WRITTEN = "not_written"


class _Record(msgspec.Struct, tag_field="t", rename={"size_bytes": "bytes"}):
    """One record; `t` names its kind. The probe's README says what each field means."""


class Hello(_Record, tag="hello"):
    """Opens the stream and every epoch of it."""

    chunk_size: BlockTokens | None = None
    l2_name: str | None = None


class Read(_Record, tag="read"):
    """A chunk was read, for one of the requests `rids`; no bytes: it was not there."""

    chunk: bytes
    start: Seconds
    end: Seconds
    rids: list[str] = []
    tokens: Count = 0
    size_bytes: Size | None = None


class Write(_Record, tag="write"):
    """A chunk was written; no bytes: it could not be."""

    chunk: bytes
    start: Seconds
    end: Seconds
    size_bytes: Size | None = None


class Stats(_Record, tag="stats"):
    """The hook about itself, cumulative; with none `waiting`, everything until then was told."""

    ts: Seconds
    waiting: Count = 0
    dropped: Size = 0


Record = Hello | Read | Write | Stats
KINDS = ("hello", "read", "write", "stats")

_decode_all = msgspec.msgpack.Decoder(list[Record]).decode
_decode_one = msgspec.msgpack.Decoder(Record).decode


@dataclass(slots=True)
class StorageStream:
    """Turns one worker's records into what L2 did, and hands its reads to those who wait for them.

    Chunks that came into the `pool` are told by the first worker (0) alone, and by none where the
    `pool_is_scanned`: every worker writes its part of each. Read by one thread.
    """

    pool: str
    worker: int
    reads: StorageReads
    where: str
    pool_is_scanned: bool = False
    stale: bool = False
    waiting: tuple[Told, ...] = ()
    findings: tuple[Finding, ...] = ()
    _l2_name: str | None = None
    _stats: Stats | None = None

    def message(self, payload: bytes, sequence: int) -> StreamReading:
        """Read one list of records; raises `BadInput`."""
        records, oddities = decode_list(payload, _decode_all, _decode_one, known=KINDS, where=self.where)
        reading = StreamReading(oddities=oddities, records=len(records), at_unix_seconds=latest_time(records))
        for record in records:
            reading.entries += self._entries(record)
            if isinstance(record, Stats):
                reading.missing += self._look_at(record)
        written = [
            record for record in records if isinstance(record, Write) and record.size_bytes is not None
        ]
        if written and self.worker == 0 and not self.pool_is_scanned:
            reading.entries.append(self._stored(written, sequence))
        return reading

    def lost(self) -> None:
        """Records were lost: what was loaded from where is not known until everything is told again."""
        self.reads.lost(self.worker)

    def restart(self, at_unix_seconds: float) -> StreamReading:  # noqa: ARG002  the pool stays as it is
        """The worker began anew."""
        self._stats = None
        return StreamReading()

    def settle(self, monotonic_seconds: float) -> StreamReading:  # noqa: ARG002  nothing here waits
        """Nothing waits for a time to come."""
        return StreamReading()

    def _entries(self, record: Record) -> Iterator[LedgerEntry]:
        match record:
            case Hello():
                self._l2_name = record.l2_name
                self.reads.chunk_tokens = record.chunk_size or self.reads.chunk_tokens
            case Read():
                if record.size_bytes is not None:
                    self.reads.read(self._read(record))
                yield self._transfer(TransferAction.LOAD, record, NOT_FOUND)
            case Write():
                yield self._transfer(TransferAction.STORE, record, NOT_WRITTEN)

    def _read(self, record: Read) -> StorageRead:
        return StorageRead(
            worker=self.worker,
            chunk=block_hash_of_bytes(record.chunk),
            tokens=record.tokens,
            request_ids=tuple(record.rids),
            started_unix_seconds=record.start,
            ended_unix_seconds=record.end,
            size_bytes=record.size_bytes,
        )

    def _transfer(self, action: TransferAction, record: Read | Write, why_not: str) -> TierTransfer:
        moved = record.size_bytes is not None
        return TierTransfer(
            tier=Tier.L2,
            holder=self.pool,
            action=action,
            at_unix_seconds=record.end,
            started_unix_seconds=min(record.start, record.end),
            adapter=self._l2_name,
            moved_blocks=int(moved),
            failed_blocks=int(not moved),
            size_bytes=record.size_bytes,
            reason=None if moved else why_not,
        )

    def _stored(self, written: list[Write], sequence: int) -> BlockEvent:
        return BlockEvent(
            tier=Tier.L2,
            holder=self.pool,
            action=BlockAction.STORED,
            block_hashes=tuple(block_hash_of_bytes(record.chunk) for record in written),
            at_unix_seconds=written[-1].end,
            block_tokens=self.reads.chunk_tokens or 0,
            sequence=sequence,
        )

    def _look_at(self, stats: Stats) -> int:
        """Learn until when everything was told; return how many records are newly known to be lost."""
        before, self._stats = self._stats, stats
        lost = stats.dropped - (before.dropped if before and before.dropped <= stats.dropped else 0)
        if lost:
            self.lost()
        until = stats if not stats.waiting else before
        if until is not None:
            self.reads.told_until(self.worker, until.ts)
        return lost
