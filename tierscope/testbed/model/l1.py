"""L1 of one replica: the chunks of an LMCache multiprocess server, and its way to L2."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.l2 import Pool


@dataclass(slots=True)
class CacheCounters:
    """What the server counts since it started: chunks, tokens where the name says so."""

    lookups: int = 0
    requested_tokens: int = 0
    hit_l1_tokens: int = 0
    hit_l2_tokens: int = 0
    hit_l1_chunks: int = 0
    hit_l2_chunks: int = 0
    l2_lookup_chunks: int = 0
    written: int = 0
    read: int = 0
    evicted: int = 0
    refused: int = 0
    """Chunks of stores that were answered well and kept nothing, for want of room."""
    loads: int = 0
    loaded: int = 0
    load_refused: int = 0
    """Chunks found in L2 that became misses, for want of room in L1."""
    stores: int = 0
    submitted: int = 0
    completed: int = 0
    """Chunks that L2 took or had already."""
    put: int = 0
    """Chunks that this server itself wrote to L2."""
    rounds: int = 0
    ticks: int = 0


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a lookup found: `hit` leading chunks in L1 or L2, `l1` of them without help from L2.

    `loaded` were brought up from L2 and hold room in L1 until the lookup is released.
    """

    hit: int
    l1: int
    pinned: Sequence[int] = ()
    loaded: Sequence[int] = ()


class CacheWatch(Protocol):
    """What sits in a server and watches; times are virtual seconds."""

    def looked_up(
        self, request_id: str, number: int, chunks: Sequence[int], lookup: Lookup, at_seconds: float
    ) -> None:
        """The lookup of a request's `number`-th admission was answered."""

    def stored(self, chunks: Sequence[int], source: str, at_seconds: float) -> None:
        """Chunks came into L1: by a `store` of the engine, or by a `load` from L2."""

    def left(self, chunks: Sequence[int], reason: str, at_seconds: float) -> None:
        """Chunks left L1: for want of room (`capacity`), or right after the read they were loaded for."""

    def refused(self, chunks: Sequence[int], at_seconds: float) -> None:
        """Chunks of a store were not kept."""

    def not_loaded(self, chunks: Sequence[int], at_seconds: float) -> None:
        """There was no room in L1 for chunks that L2 has."""

    def wrote_back(
        self, chunks: Sequence[int], new: Sequence[int], completed: int, at_seconds: float
    ) -> None:
        """Chunks were sent to L2, which now has `completed` of them; the `new` ones it had not before."""


class Cache:
    """Least recently used chunks of host memory.

    A loop looks at the fill once a second and drops a share of the chunks above a watermark; nothing
    else makes room, so a store that comes before the loop is refused. A lookup touches what it finds, and
    the end of a request all of its prompt, last chunk first, so that a prefix outlives its continuations.
    """

    @classmethod
    def of(cls, config: TestbedConfig, pool: Pool, watch: CacheWatch | None = None) -> Self:
        """One of a replica of this testbed."""
        return cls(
            pool,
            capacity_chunks=config.l1_chunks,
            chunk_tokens=config.tokens_per_chunk,
            watermark_ratio=config.l1_watermark_ratio,
            eviction_ratio=config.l1_eviction_ratio,
            store_batch_chunks=config.store_batch_chunks,
            retain_loads=config.l1_retain_loads,
            watch=watch,
        )

    def __init__(
        self,
        pool: Pool,
        *,
        capacity_chunks: int,
        chunk_tokens: int,
        watermark_ratio: float,
        eviction_ratio: float,
        store_batch_chunks: int,
        retain_loads: bool,
        watch: CacheWatch | None = None,
    ) -> None:
        self.watch = watch
        self.capacity_chunks = capacity_chunks
        self.chunk_tokens = chunk_tokens
        self.counters = CacheCounters()
        self._pool = pool
        self._watermark_ratio = watermark_ratio
        self._eviction_ratio = eviction_ratio
        self._store_batch_chunks = store_batch_chunks
        self._retain_loads = retain_loads
        self._chunks: OrderedDict[int, None] = OrderedDict()
        self._pins: Counter[int] = Counter()
        self._staged = 0

    @property
    def used_chunks(self) -> int:
        """Chunks that hold memory: the resident and those on their way through from L2."""
        return len(self._chunks) + self._staged

    @property
    def resident_chunks(self) -> int:
        """Chunks that a lookup would find."""
        return len(self._chunks)

    def resident(self, chunk: int) -> bool:
        """Whether a lookup would find a chunk without help from L2."""
        return chunk in self._chunks

    def lookup(self, chunks: Sequence[int], at_seconds: float) -> Lookup:
        """Find the longest prefix in L1 and L2 together, touch it, and load what only L2 has."""
        self.tick(at_seconds)
        self._pool.tick(at_seconds)
        l1 = hit = self._leading(chunks)
        while hit < len(chunks) and (chunks[hit] in self._chunks or self._pool.holds(chunks[hit])):
            hit += 1
        loaded = [chunk for chunk in chunks[l1:hit] if chunk not in self._chunks]
        if len(loaded) > self.capacity_chunks - self.used_chunks:
            self.counters.load_refused += len(loaded)
            if self.watch:
                self.watch.not_loaded(loaded, at_seconds)
            loaded, hit = [], l1
        pinned = [chunk for chunk in chunks[:hit] if chunk in self._chunks]
        for chunk in reversed(pinned):
            self._chunks.move_to_end(chunk)
        self._pins.update(pinned)
        self._staged += len(loaded)
        self._count_lookup(len(chunks), hit, l1, len(loaded))
        if loaded and self.watch:
            self.watch.stored(loaded, "load", at_seconds)
        for chunk in loaded:
            self._pool.read(chunk)
        return Lookup(hit, l1, pinned, loaded)

    def release(self, lookup: Lookup, at_seconds: float) -> None:
        """End a lookup: what it loaded is dropped right away, unless loads are retained."""
        self.tick(at_seconds)
        self.counters.read += len(lookup.pinned) + len(lookup.loaded)
        self._pins.subtract(lookup.pinned)
        for chunk in lookup.pinned:
            if not self._pins[chunk]:
                del self._pins[chunk]
        self._staged -= len(lookup.loaded)
        dropped = lookup.loaded
        if self._retain_loads:
            dropped = [chunk for chunk in lookup.loaded if chunk in self._chunks]
            self._chunks.update((chunk, None) for chunk in reversed(lookup.loaded))
        self.counters.evicted += len(dropped)
        if dropped and self.watch:
            self.watch.left(dropped, "after_read", at_seconds)

    def store(self, chunks: Sequence[int], at_seconds: float) -> None:
        """Take chunks in batches, each whole or not at all, and write what was taken to L2."""
        self.tick(at_seconds)
        for start in range(0, len(chunks), self._store_batch_chunks):
            batch = [c for c in chunks[start : start + self._store_batch_chunks] if c not in self._chunks]
            if len(batch) > self.capacity_chunks - self.used_chunks:
                self.counters.refused += len(batch)
                if self.watch:
                    self.watch.refused(batch, at_seconds)
            elif batch:
                self._chunks.update((chunk, None) for chunk in reversed(batch))
                self.counters.written += len(batch)
                if self.watch:
                    self.watch.stored(batch, "store", at_seconds)
                self._write_back(batch, at_seconds)

    def touch(self, chunks: Sequence[int]) -> None:
        """A request has ended: what is here of its prompt was used last."""
        for chunk in reversed(chunks):
            if chunk in self._chunks:
                self._chunks.move_to_end(chunk)

    def tick(self, at_seconds: float) -> None:
        """Catch up with the eviction loop, which looks once a second."""
        first = self.counters.ticks + 1
        due = math.floor(at_seconds) - self.counters.ticks
        self.counters.ticks += max(due, 0)
        for round_ in range(due):
            full = self.used_chunks >= self._watermark_ratio * self.capacity_chunks
            if not full or not self._evict(first + round_):
                return

    def resize(self, capacity_chunks: int, at_seconds: float) -> None:
        """Have another size from now on; what no longer fits goes as fast as it can."""
        self.capacity_chunks = capacity_chunks
        while self.used_chunks > capacity_chunks and self._evict(at_seconds):
            pass

    def _evict(self, at_seconds: float) -> bool:
        """Drop a share of the resident chunks, least recently used first; False when none could go."""
        if not self._chunks:
            return False
        share = max(int(self.used_chunks * self._eviction_ratio), 1)
        victims = [chunk for chunk in self._oldest(share + len(self._pins)) if chunk not in self._pins][
            :share
        ]
        for chunk in victims:
            del self._chunks[chunk]
        self.counters.evicted += len(victims)
        self.counters.rounds += 1
        if victims and self.watch:
            self.watch.left(victims, "capacity", at_seconds)
        return bool(victims)

    def _oldest(self, most: int) -> list[int]:
        return [chunk for chunk, _ in zip(self._chunks, range(most), strict=False)]

    def _leading(self, chunks: Sequence[int]) -> int:
        for position, chunk in enumerate(chunks):
            if chunk not in self._chunks:
                return position
        return len(chunks)

    def _write_back(self, batch: Sequence[int], at_seconds: float) -> None:
        counters = self.counters
        counters.stores += 1
        counters.submitted += len(batch)
        counters.read += len(batch)
        missing = [chunk for chunk in batch if not self._pool.holds(chunk)]
        completed = sum(self._pool.put(chunk, at_seconds) for chunk in batch)
        new = [chunk for chunk in missing if self._pool.holds(chunk)]
        counters.completed += completed
        counters.put += len(new)
        if self.watch:
            self.watch.wrote_back(batch, new, completed, at_seconds)

    def _count_lookup(self, asked: int, hit: int, l1: int, loaded: int) -> None:
        counters, tokens = self.counters, self.chunk_tokens
        counters.lookups += 1
        counters.requested_tokens += asked * tokens
        counters.hit_l1_tokens += l1 * tokens
        counters.hit_l2_tokens += (hit - l1) * tokens
        counters.hit_l1_chunks += hit - loaded
        counters.hit_l2_chunks += loaded
        counters.l2_lookup_chunks += asked
        if loaded:
            counters.loads += 1
            counters.loaded += loaded
            counters.written += loaded
