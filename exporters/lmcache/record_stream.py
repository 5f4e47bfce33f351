"""The record stream of the probe in one LMCache server: what L1 and L2 found, moved, kept and lost.

An allocation that failed is told twice; what failed for it is counted: a store that was refused, or a load
from L2. So are failed keys of L2 loads, by the reason they failed for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from exporters.lmcache import records as wire
from exporters.lmcache.chunk_names import name_findings
from exporters.lmcache.pool_contents import PoolContents
from exporters.lmcache.suspicion import ServerJudge
from exporters.lookups import Lookups
from exporters.oddities import Finding
from exporters.page_state import Told
from exporters.streams import StreamReading
from exporters.vllm.hook_chains import ChainMemory
from exporters.wire import latest_time
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EvictionReason,
    LedgerEntry,
    TierActivity,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.requests import CacheLookup, TierLoad, TierStore
from tierscope.domain.tiers import Tier
from tierscope.domain.units import block_hash_of_bytes

MOST_CHUNKS = 1_000_000
"""Chunks of L1 that are followed, so that a restart can tell what it lost."""

_REASONS = {reason.value: reason for reason in EvictionReason}


@dataclass(slots=True)
class RecordStream:
    """Turns one server's records into what its tiers did, and hands its lookups to those who wait for them.

    `server` holds L1, `pool` L2. Where the `pool_is_scanned`, what came into it and left it is told by the
    scan. `judge` is told what may be wrong with the server. Read by one thread.
    """

    server: str
    pool: str
    lookups: Lookups
    where: str
    judge: ServerJudge
    pool_is_scanned: bool = False
    stale: bool = False
    waiting: tuple[Told, ...] = ()
    _resident: Counter[int] | None = field(default_factory=Counter)
    """Copies of each chunk in L1; None where events were lost, or there are too many to follow."""
    _removed: tuple[wire.L2Removed, int, int] | None = None
    """A removal from L2 whose reason the next record tells, with its place in the stream."""
    _stats: wire.Stats | None = None
    _dropped_before: int | None = None
    _chains: ChainMemory = field(default_factory=ChainMemory)
    _written: PoolContents = field(default_factory=PoolContents)

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong with the server now."""
        return [*self.judge.findings(), *name_findings(self.lookups.names, self.server)]

    def message(self, payload: bytes, sequence: int) -> StreamReading:
        """Read one list of records; raises `BadInput`."""
        records, oddities = wire.decode_records(payload, where=self.where)
        reading = StreamReading(oddities=oddities, records=len(records), at_unix_seconds=latest_time(records))
        for ordinal, record in enumerate(records):
            reading.entries += self._release(record)
            reading.entries += self._entries(record, sequence, ordinal)
            if isinstance(record, wire.Stats):
                reading.missing += self._look_at(record)
        looked_up = [record for record in records if isinstance(record, wire.Lookup)]
        if looked_up:
            reading.entries += self._activities(looked_up)
        return reading

    def lost(self) -> None:
        """Records were lost: what L1 holds is unknown until the server begins anew."""
        self._resident = None
        self._removed = None
        self.stale = True

    def restart(self, at_unix_seconds: float) -> StreamReading:
        """The server began anew with an empty L1."""
        entries: list[LedgerEntry] = []
        if self._resident:
            gone = tuple(self._resident.elements())
            entries.append(self._event(Tier.L1, gone, at_unix_seconds, EvictionReason.RESTART))
        self._resident = Counter()
        self._removed = None
        self._chains.forget()
        self._stats = self._dropped_before = None
        self.stale = False
        return StreamReading(entries)

    def settle(self, monotonic_seconds: float) -> StreamReading:
        """Hand on what was moved for admissions that were told before it."""
        return StreamReading(late=self.lookups.late(monotonic_seconds))

    def _entries(self, record: wire.Record, sequence: int, ordinal: int) -> Iterator[LedgerEntry]:
        match record:
            case wire.Hello():
                self.lookups.chunk_tokens = record.chunk_size or self.lookups.chunk_tokens
                if self._dropped_before is None:  # else it is said again, for readers that came late
                    self._dropped_before = 0
            case wire.Lookup():
                self._look_up(record)
            case wire.L1Stored() | wire.L1Evicted():
                yield from self._in_l1(record, sequence, ordinal)
            case wire.L2Stored() | wire.L2Removed():
                yield from self._in_l2(record, sequence, ordinal)
            case _:
                yield from self._moved(record)

    def _in_l1(
        self, record: wire.L1Stored | wire.L1Evicted, sequence: int, ordinal: int
    ) -> Iterator[BlockEvent]:
        """Chunks came into L1 or left it; nothing where only further objects of known chunks did."""
        chunks = _numbers(record.chunks)
        reason = None
        if isinstance(record, wire.L1Stored):
            self._came(chunks)
            self.judge.came(chunks, record.ts)
            if record.source == "store":
                self.judge.stored(record.keys, kept=True)
        else:
            reason = _REASONS.get(record.reason, EvictionReason.UNKNOWN)
            self._left(chunks)
            if reason is EvictionReason.CAPACITY:
                self.judge.made_room(chunks, record.ts)
        if chunks:
            yield self._event(Tier.L1, chunks, record.ts, reason, sequence=sequence, ordinal=ordinal)

    def _in_l2(
        self, record: wire.L2Stored | wire.L2Removed, sequence: int, ordinal: int
    ) -> Iterator[BlockEvent]:
        """The server wrote chunks to L2 or deleted them there; a scan of the pool tells the same itself."""
        chunks, owner = _numbers(record.chunks), (record.model, record.salt)
        if isinstance(record, wire.L2Removed):
            self._written.deleted(owner, chunks)
            if chunks and not self.pool_is_scanned:
                self._removed = (record, sequence, ordinal)
            return
        self._written.wrote(owner, chunks, record.ts)
        if chunks and not self.pool_is_scanned:
            yield self._event(Tier.L2, chunks, record.ts, sequence=sequence, ordinal=ordinal)

    def _moved(self, record: wire.Record) -> Iterator[TierTransfer]:
        """What a task moved, or what of one failed."""
        match record:
            case wire.Transfer():
                action = TransferAction.STORE if record.direction == "store" else TransferAction.LOAD
                if record.rid is not None:
                    self._copied(record.rid, action, record)
                if record.keys:
                    yield TierTransfer(
                        Tier.L1,
                        self.server,
                        action,
                        record.end,
                        record.start,
                        None,
                        record.keys,
                        0,
                        record.bytes,
                    )
            case wire.Load():
                yield self._loaded(record)
            case wire.Store():
                size = record.bytes if record.written_bytes is None else record.written_bytes
                yield self._task(TransferAction.STORE, record, record.stored_keys, record.failed_keys, size)
            case wire.StoreRefused():
                self.judge.stored(record.keys, kept=False)
                yield self._failed(Tier.L1, TransferAction.STORE, record)
            case wire.L1ReadFailed():
                yield self._failed(Tier.L1, TransferAction.LOAD, record)
            case wire.L2Failed():
                chunks = _numbers(record.chunks)
                self._written.passed_over((record.model, record.salt), chunks, record.ts)
                yield self._failed(Tier.L2, TransferAction.LOAD, record)

    def _copied(self, request_id: str, action: TransferAction, record: wire.Transfer) -> None:
        """Keep a copy between L1 and an engine for the request it was made for."""
        if action is TransferAction.LOAD:
            load = TierLoad(Tier.L1, record.end, record.start, record.keys, record.bytes)
            self.lookups.loaded(request_id, load)
        elif record.keys:
            store = TierStore(Tier.L1, record.end, record.start, record.keys, record.bytes)
            self.lookups.stored(request_id, store)

    def _loaded(self, record: wire.Load) -> TierTransfer:
        moved, size = record.loaded_keys, record.bytes
        if moved is None:
            size = None
        elif size is not None and record.keys:
            size = size * moved // record.keys  # objects of one task have one size
        if record.rid is not None:
            load = TierLoad(Tier.L2, record.end, record.start, moved, size, record.l2_name)
            self.lookups.loaded(record.rid, load)
        if moved and size and record.start is not None:
            self.judge.loaded(record.end - record.start, size, moved)
        return self._task(TransferAction.LOAD, record, moved or 0, 0, size)

    def _task(
        self,
        action: TransferAction,
        record: wire.Load | wire.Store,
        moved: int,
        failed: int,
        size: int | None,
    ) -> TierTransfer:
        return TierTransfer(
            Tier.L2, self.pool, action, record.end, record.start, record.l2_name, moved, failed, size
        )

    def _failed(
        self,
        tier: Tier,
        action: TransferAction,
        record: wire.StoreRefused | wire.L1ReadFailed | wire.L2Failed,
    ) -> TierTransfer:
        holder = self.server if tier is Tier.L1 else self.pool
        return TierTransfer(
            tier, holder, action, record.ts, failed_blocks=record.keys, reason=record.reason or None
        )

    def _look_up(self, record: wire.Lookup) -> None:
        chain = self._chains.resolve(record.hashes) or ()
        self._look_for_lost(record, chain)
        if record.l1_hit_tokens is None:
            return  # a release that does not tell the tiers apart
        lookup = CacheLookup(
            self.server,
            record.end,
            record.hit_tokens,
            record.l1_hit_tokens,
            record.start,
            first_chunk_hash=chain[0] if chain else None,
        )
        self.lookups.answered(record.rid, record.k, lookup)

    def _look_for_lost(self, record: wire.Lookup, chain: Sequence[int]) -> None:
        """See whether the first chunk that was not found is one that this server wrote to L2."""
        if record.l2_hit_tokens:
            self.judge.hit(record.l2_hit_tokens, record.l2_hit_keys)
            self.judge.looked_for(found=True)
        end = record.hit_tokens // self.lookups.chunk_tokens if self.lookups.chunk_tokens else len(chain)
        if end < len(chain) and record.start is not None:
            owner = (record.model, record.salt)
            if self._written.missed(owner, chain[end], record.start):
                self.judge.looked_for(found=False)

    def _activities(self, lookups: Sequence[wire.Lookup]) -> Iterator[TierActivity]:
        """What was asked of both tiers; L2 is asked for what L1 did not have."""
        since = min(each.end if each.start is None else each.start for each in lookups)
        until = max(each.end for each in lookups)
        requested = sum(each.requested_tokens for each in lookups)
        l1, l2 = (
            sum(getattr(each, name) or 0 for each in lookups) for name in ("l1_hit_tokens", "l2_hit_tokens")
        )
        for tier, holder, hit, asked in (
            (Tier.L1, self.server, l1, requested),
            (Tier.L2, self.pool, l2, requested - l1),
        ):
            yield TierActivity(
                tier, holder, since, until, lookup_hit_tokens=hit, lookup_miss_tokens=max(0, asked - hit)
            )

    def _look_at(self, stats: wire.Stats) -> int:
        """Learn until when everything was told; return how many events are newly known to be lost.

        What the probe had in line when it made its last statistics has been sent by the time of these.
        """
        if self._stats is not None:
            self.lookups.told_until(self._stats.ts - (self._stats.bus_lag_s or 0.0))
        self._stats = stats
        dropped = stats.dropped + (stats.bus_dropped or 0)
        before, self._dropped_before = self._dropped_before, dropped
        if before is None:
            return 0
        lost = dropped - before if dropped >= before else dropped
        if lost:
            self.lost()
        return lost

    def _came(self, chunks: Sequence[int]) -> None:
        if self._resident is not None:
            self._resident.update(chunks)
            if len(self._resident) > MOST_CHUNKS:
                self._resident = None

    def _left(self, chunks: Sequence[int]) -> None:
        resident = self._resident
        if resident is None:
            return
        for chunk in chunks:
            if resident[chunk] > 1:
                resident[chunk] -= 1
            else:
                del resident[chunk]  # a Counter forgets what it never had, too

    def _release(self, following: wire.Record) -> Iterator[BlockEvent]:
        """Tell a removal from L2, now that what follows it says whether LMCache's own eviction did it."""
        if self._removed is None:
            return
        (record, sequence, ordinal), self._removed = self._removed, None
        own = isinstance(following, wire.L2Evicted) and following.keys == record.keys
        reason = EvictionReason.CAPACITY if own else EvictionReason.DELETE
        chunks = _numbers(record.chunks)
        yield self._event(Tier.L2, chunks, record.ts, reason, sequence=sequence, ordinal=ordinal)

    def _event(
        self,
        tier: Tier,
        chunks: tuple[int, ...],
        at_unix_seconds: float,
        reason: EvictionReason | None = None,
        *,
        sequence: int | None = None,
        ordinal: int = 0,
    ) -> BlockEvent:
        return BlockEvent(
            tier=tier,
            holder=self.server if tier is Tier.L1 else self.pool,
            action=BlockAction.STORED if reason is None else BlockAction.EVICTED,
            block_hashes=chunks,
            at_unix_seconds=at_unix_seconds,
            block_tokens=self.lookups.chunk_tokens,
            reason=reason,
            sequence=sequence,
            ordinal=ordinal,
        )


def _numbers(chunks: Sequence[bytes]) -> tuple[int, ...]:
    return tuple(map(block_hash_of_bytes, chunks))
