"""What an LMCache server tells its coordinator: chunks that came into its tiers and left them.

It tells no lookup, no latency, no failure and no reason: a departure may be an eviction, a read's end or a
clearing. Each batch has a number, and the server another incarnation after each start, so what was lost is
known, and what an old life still says is left out. Token ids that come along are never decoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from exporters.lmcache.unseen import Unseen
from exporters.streams import StreamReading
from exporters.wire import UNREADABLE, Seconds, undecodable
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason, TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.units import BLOCK_HASH_MASK

_TIERS = {"l1": Tier.L1, "l2": Tier.L2}


class Key(msgspec.Struct, frozen=True):
    """The name of one object: a chunk has one for each KV rank and object group."""

    chunk_hash_hex: Annotated[str, msgspec.Meta(pattern="^(0x)?[0-9a-fA-F]{1,128}$")]
    model_name: str = ""
    kv_rank: int = 0
    object_group_id: int = 0
    cache_salt: str = ""


class Entry(msgspec.Struct):
    """One object and its size."""

    key: Key
    size_bytes: int = 0


class Batch(msgspec.Struct):
    """What happened in one storage of one tier. Whoever `access`es changes nothing."""

    seq: int
    event_type: str
    tier: str
    ts: Seconds
    incarnation: int = 0
    backend: str = ""
    entries: list[Entry] = []
    capacity_bytes: int | None = None


class Batches(msgspec.Struct):
    """The body of one `POST /events`."""

    batches: list[Batch]


_decode = msgspec.json.Decoder(Batches).decode


def decode_batches(body: bytes, *, where: str) -> list[Batch]:
    """Read what one request brings; raises `BadInput`."""
    try:
        return _decode(body).batches
    except (*UNREADABLE, UnicodeDecodeError) as error:
        raise undecodable(body, error, where) from error


_Chunk = tuple[str, str, int]
"""Model, salt and hash: equal tokens of two models or under two salts are chunks of their own."""


@dataclass(slots=True)
class _Held:
    """What one tier of the server holds, as far as it was told in this life of it."""

    sizes: dict[Key, int] = field(default_factory=dict)
    objects: Counter[_Chunk] = field(default_factory=Counter)
    """Objects of each chunk."""
    first: dict[_Chunk, Key] = field(default_factory=dict)
    """Of each chunk the object that came first."""
    unseen: Unseen[_Chunk] = field(default_factory=Unseen)
    capacity_bytes: int | None = None

    def add(self, entry: Entry) -> bool:
        """Take an object in; whether its chunk was not there before.

        One that is stored again was gone: a pool loses files that its servers never hear of.
        """
        chunk = _chunk(entry.key)
        if entry.key in self.sizes:
            return self.first[chunk] == entry.key
        self.unseen.came(chunk)
        self.sizes[entry.key] = entry.size_bytes
        self.objects[chunk] += 1
        self.first.setdefault(chunk, entry.key)
        return self.objects[chunk] == 1

    def drop(self, key: Key, *, stale: bool) -> bool:
        """Let an object go; whether its chunk is gone with it.

        Where what came was lost (`stale`), one that was never seen to come was there all the same.
        """
        chunk = _chunk(key)
        if self.sizes.pop(key, None) is not None:
            self.objects[chunk] -= 1
            if self.objects[chunk] > 0:
                return False
            del self.objects[chunk], self.first[chunk]
            if not stale:
                return True
        return stale and chunk not in self.objects and self.unseen.left(chunk)


@dataclass(slots=True)
class CoordinatorStream:
    """Turns what one server tells into what its L1 did, and the `pool` it writes to.

    Used by one thread at a time. Where the `pool_is_scanned`, what came into it and left it is the scan's.
    """

    server: str
    pool: str
    pool_is_scanned: bool = False
    stale: bool = False
    """Whether something was lost, so that what L1 holds is unknown until the server begins anew."""
    _left: bool = False
    """Whether the server said that it ends; it still sends what it has not told by then."""
    _incarnation: int | None = None
    _next_sequence: int | None = None
    _held: dict[Tier, _Held] = field(default_factory=lambda: {tier: _Held() for tier in _TIERS.values()})

    def take(self, batches: Sequence[Batch]) -> StreamReading:
        """Take what one request brought."""
        reading = StreamReading()
        for batch in batches:
            if self._incarnation is not None and batch.incarnation < self._incarnation:
                continue  # sent by a life that is over
            if batch.incarnation != self._incarnation:
                reading.entries += self._begin(batch)
            reading.missing += self._missed(batch.seq)
            reading.entries += self._batch(batch)
        if batches:
            reading.entries += self.gone(batches[-1].ts) if self._left else self.held(batches[-1].ts)
        return reading

    def held(self, at_unix_seconds: float) -> Iterator[TierSample]:
        """Yield how full L1 is, where that is known, and something was told in this life, which goes on."""
        l1 = self._held[Tier.L1]
        if self._incarnation is not None and not (self.stale or self._left):
            yield TierSample(
                tier=Tier.L1,
                holder=self.server,
                at_unix_seconds=at_unix_seconds,
                capacity_bytes=l1.capacity_bytes,
                used_bytes=sum(l1.sizes.values()),
                used_blocks=len(l1.objects),
            )

    def leave(self, at_unix_seconds: float) -> list[BlockEvent]:
        """The server says that it ends. What it sends after that is true of its pool; its L1 stays empty."""
        self._left = True
        return self.gone(at_unix_seconds)

    def stays(self) -> None:
        """The server is there. If it had left, what it holds is unknown unless it begins anew."""
        self.stale |= self._left
        self._left = False

    def gone(self, at_unix_seconds: float) -> list[BlockEvent]:
        """The server left, or began anew: its memory is empty, its pool stays as it is."""
        chunks = tuple(number for _, _, number in self._held[Tier.L1].objects)
        self._held[Tier.L1] = _Held(capacity_bytes=self._held[Tier.L1].capacity_bytes)
        return [self._event(Tier.L1, chunks, at_unix_seconds, EvictionReason.RESTART)] if chunks else []

    def _begin(self, batch: Batch) -> Iterator[BlockEvent]:
        yield from self.gone(batch.ts)
        self._left &= self._incarnation is None  # whoever was first heard of when it left goes on leaving
        self._incarnation, self._next_sequence = batch.incarnation, None
        self._held[Tier.L2] = _Held()
        self.stale = False

    def _missed(self, sequence: int) -> int:
        """How many batches are newly known to be lost; a life's first has the number 1."""
        expected = 1 if self._next_sequence is None else self._next_sequence
        self._next_sequence = max(expected, sequence + 1)
        missed = max(0, sequence - expected)
        self.stale |= bool(missed)
        return missed

    def _batch(self, batch: Batch) -> Iterator[BlockEvent]:
        tier = _TIERS.get(batch.tier)
        if tier is None:
            return
        held = self._held[tier]
        if batch.event_type == "config":
            held.capacity_bytes = batch.capacity_bytes or None
        elif batch.event_type == "store":
            chunks = tuple(_number(entry.key) for entry in batch.entries if held.add(entry))
            yield from self._told(tier, chunks, batch, None)
        elif batch.event_type == "delete":
            # What had not left L1 when the server did was told with its end.
            stale = self.stale and not (self._left and tier is Tier.L1)
            gone = [entry.key for entry in batch.entries if held.drop(entry.key, stale=stale)]
            chunks = tuple(map(_number, gone))
            yield from self._told(tier, chunks, batch, EvictionReason.UNKNOWN)

    def _told(
        self, tier: Tier, chunks: tuple[int, ...], batch: Batch, reason: EvictionReason | None
    ) -> Iterator[BlockEvent]:
        if chunks and not (tier is Tier.L2 and self.pool_is_scanned):
            yield self._event(tier, chunks, batch.ts, reason, batch.seq)

    def _event(
        self,
        tier: Tier,
        chunks: tuple[int, ...],
        at_unix_seconds: float,
        reason: EvictionReason | None,
        sequence: int | None = None,
    ) -> BlockEvent:
        return BlockEvent(
            tier=tier,
            holder=self.server if tier is Tier.L1 else self.pool,
            action=BlockAction.STORED if reason is None else BlockAction.EVICTED,
            block_hashes=chunks,
            at_unix_seconds=at_unix_seconds,
            reason=reason,
            sequence=sequence,
        )


def _chunk(key: Key) -> _Chunk:
    return key.model_name, key.cache_salt, _number(key)


def _number(key: Key) -> int:
    return int(key.chunk_hash_hex, 16) & BLOCK_HASH_MASK
