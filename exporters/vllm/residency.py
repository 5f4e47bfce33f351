"""Which blocks an engine holds, from its KV events, and the block events that follow from them.

One hash may be stored in several physical blocks, so every medium counts copies (one stream is one rank).
What an engine announces are copies: stored minus evicted copies is what is there. Two things
are not said and must be told from the rest: a store that only announces reused blocks again
(`kv_cache_report_mode="full"`), and whether a clear emptied more than the GPU.

A store of a whole known prefix, from its root, is either such an announcement or a request that was computed
without looking (prompt logprobs do that), whose blocks are copies. Nothing in it says which, so it counts
as announcement until a removal shows a copy that nobody counted: then it is told late, stored and evicted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import not_

import msgspec

from exporters.oddities import Finding, Oddity
from exporters.vllm.events import (
    BlockChange,
    BlocksRemoved,
    BlocksStored,
    ChangeBatch,
    tier_of_medium,
)
from exporters.vllm.pools import Held, Path, Pool, count_orphans
from exporters.vllm.strides import Strides
from exporters.vllm.suspicion import strides_missing
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import EVICTED_AGE
from tierscope.registry.types import Sample
from tierscope.telemetry.histogram import HistogramAccumulator

MOST_BLOCKS = 1_000_000
"""Copies followed in one tier of one engine. Storage never announces a removal, so its set only grows."""

MEMORY = (Tier.L0, Tier.L1)
"""Tiers that are empty when an engine begins."""

AGES_AT_ONCE = 1000
"""Ages of one tier that wait to be counted before they are, if no page is asked for earlier."""

BELOW = {Tier.L0: (Tier.L1, Tier.L2), Tier.L1: (Tier.L2,), Tier.L2: ()}
"""Tiers a block can have been demoted to."""


class _Batch(msgspec.Struct, gc=False):
    """One batch while it is applied: what came of it so far, and the change that is its turn."""

    changes: Sequence[BlockChange]
    at_unix_seconds: float
    sequence: int | None
    ordinal: int = 0
    events: list[BlockEvent] = []
    oddities: list[Oddity] = []
    below: dict[Tier, set[int]] | None = None

    def coming(self) -> dict[Tier, set[int]]:
        """Blocks that it stores in lower tiers; engines tell the GPU's changes before the connector's."""
        if self.below is None:
            self.below = _stored_below(self.changes)
        return self.below


@dataclass(slots=True)
class Residency:
    """Follows one engine's KV events. `holder` names it in the block events; `where` in messages.

    Written by one thread; everything public may be read by others.
    """

    holder: str
    where: str
    most_blocks: int = MOST_BLOCKS
    _pools: dict[tuple[str | None, int], Pool] = field(default_factory=dict)
    _unsure: frozenset[Tier] = frozenset()
    _strides: Strides | None = None
    """What was said of host memory since it was empty; None where that was before we listened."""
    _told_at: float | None = None
    """The latest time of this life's batches."""
    _room: int = 0
    """Blocks that may be stored before it is counted anew whether they are too many to follow."""
    _ages: HistogramAccumulator = field(default_factory=lambda: HistogramAccumulator(EVICTED_AGE))
    _ages_seconds: dict[Tier, list[float]] = field(default_factory=lambda: {tier: [] for tier in Tier})
    """Ages that `_ages` has yet to count: many at a time are quicker."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def apply(self, batch: ChangeBatch, sequence: int | None = None) -> tuple[list[BlockEvent], list[Oddity]]:
        """Take one batch; return what happened to blocks, neighbouring removals joined, and what was odd.

        `sequence` is the batch's number in the engine's stream. An event's `ordinal` is the place of its
        change among the joined ones, which depends on nothing but the batch.
        """
        state = _Batch(batch.changes, batch.at_unix_seconds, sequence)
        with self._lock:
            self._told_at = max(batch.at_unix_seconds, self._told_at or 0.0)
            self._follow(state)
            if self._room < 0:
                self._bound(state)
        return state.events, state.oddities

    def lost(self) -> None:
        """Events were lost: what is resident is unknown until a clear or a restart."""
        with self._lock:
            self._pools.clear()
            self._unsure = frozenset(Tier)
            self._strides = None

    def restart(self, at_unix_seconds: float) -> list[BlockEvent]:
        """The engine began anew: its memory is empty, files in storage are still there.

        What was lost was lost before its first event, which may have come before we saw that it restarted.
        """
        with self._lock:
            state = _Batch((), at_unix_seconds if self._told_at is None else self._told_at, None)
            self._told_at = None
            self._unsure -= set(MEMORY)
            self._strides = Strides()
            return [
                event for tier in MEMORY for event in self._evict_all(tier, EvictionReason.RESTART, state)
            ]

    def began(self, at_unix_seconds: float) -> list[BlockEvent]:
        """The engine began, with empty memory, at this time; what a life before held is not known here."""
        state = _Batch((), at_unix_seconds, None)
        with self._lock:
            self._strides = Strides()
        return [self._evicted(tier, (), EvictionReason.RESTART, state) for tier in MEMORY]

    def held(self, tier: Tier) -> Held | None:
        """What is in a tier; None where that cannot be known or nothing was ever said of it."""
        with self._lock:
            known = tier not in self._unsure and not (tier is Tier.L1 and self._strided())
            pools = self._of(tier) if known else []
            snapshots = [pool.snapshot() for pool in pools]
            sizes = {pool.block_tokens for pool in pools}
        if not snapshots:
            return None
        return Held(
            distinct=sum(distinct for distinct, *_ in snapshots),
            duplicates=sum(duplicates for _, duplicates, _ in snapshots),
            orphans=sum(count_orphans(blocks) for *_, blocks in snapshots),
            block_tokens=max(sizes) or None,
        )

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with what the engine says."""
        with self._lock:
            stride, seen = self._strided(), self._strides.seen if self._strides else (0, 0)
        if stride is not None:
            yield strides_missing(stride, *seen, where=self.where)

    def resident(self, tier: Tier) -> int | None:
        """Distinct whole blocks in a tier; None as for `held`."""
        held = self.held(tier)
        return None if held is None else held.distinct

    @property
    def stale(self) -> bool:
        """Whether events were lost and nothing has made the state of the GPU cache known again."""
        return Tier.L0 in self._unsure

    def samples(self) -> Iterator[Sample]:
        """Yield the ages at which blocks were evicted."""
        with self._lock:
            self._count_ages()
            ages = list(self._ages.samples())
        yield from ages

    def _of(self, tier: Tier) -> list[Pool]:
        return [pool for pool in self._pools.values() if pool.tier is tier]

    def _follow(self, batch: _Batch) -> None:
        """Take the changes in their order, but neighbouring removals from one medium as one.

        vLLM sends one a block. This runs for every few blocks that an engine stores, so nothing is made of a
        change but its event, and `type` is asked, which is quicker than `isinstance`.
        """
        run: BlocksRemoved | None = None
        gone: list[int] = []
        for change in batch.changes:
            if type(change) is BlocksRemoved:
                if run is not None:
                    if change.medium == run.medium and change.group == run.group:
                        gone += change.block_hashes
                        continue
                    self._removed(run, tuple(gone), batch)
                    batch.ordinal += 1
                run, gone = change, [*change.block_hashes]
                continue
            if run is not None:
                self._removed(run, tuple(gone), batch)
                batch.ordinal += 1
                run = None
            if type(change) is BlocksStored:
                self._added(change, batch)
            else:
                batch.events += self._clear(batch)
            batch.ordinal += 1
        if run is not None:
            self._removed(run, tuple(gone), batch)

    def _begun(self, change: BlocksStored | BlocksRemoved, blocks: int, batch: _Batch) -> Pool | None:
        """Begin to follow a medium; None where its tier is not known, which is odd."""
        tier = tier_of_medium(change.medium)
        if tier is None:
            batch.oddities.append(self._unknown_medium(change.medium, blocks))
            return None
        pool = self._pools[change.medium, change.group] = Pool(tier)
        return pool

    def _added(self, change: BlocksStored, batch: _Batch) -> None:
        hashes = change.block_hashes
        pool = self._pools.get((change.medium, change.group))
        if pool is None and hashes:
            pool = self._begun(change, len(hashes), batch)
        if pool is None or not hashes or not pool.add(change, batch.at_unix_seconds):
            return
        self._room -= len(hashes)
        if pool.tier is Tier.L1:
            self._compare(change)
        batch.events.append(self._stored(pool.tier, hashes, change.parent_hash, change.block_tokens, batch))

    def _compare(self, change: BlocksStored) -> None:
        """Hold blocks of host memory against the GPU's chains, where one has blocks of the other's size."""
        for (_, group), pool in self._pools.items():
            same_size = change.block_tokens and pool.block_tokens == change.block_tokens
            if self._strides and pool.tier is Tier.L0 and group == change.group and same_size:
                self._strides.look(change.block_hashes, pool.parent_of)

    def _strided(self) -> int | None:
        return None if self._strides is None else self._strides.stride

    def _removed(self, run: BlocksRemoved, hashes: tuple[int, ...], batch: _Batch) -> None:
        """Take what left one medium; `run` is the first of the changes that said so."""
        pool = self._pools.get((run.medium, run.group))
        if pool is None and hashes:
            pool = self._begun(run, len(hashes), batch)
        if pool is None or not hashes:
            return
        paths = pool.take_each(hashes)
        if not all(paths):
            self._look_again(paths, hashes, pool, batch)
        self._note_ages(pool.tier, paths, batch.at_unix_seconds)
        demoted: tuple[int, ...] = ()
        if len(self._pools) > 1 or batch.coming():
            hashes, demoted = self._split(hashes, pool.tier, batch)
        if hashes:
            batch.events.append(self._evicted(pool.tier, hashes, EvictionReason.CAPACITY, batch))
        if demoted:
            batch.events.append(self._evicted(pool.tier, demoted, EvictionReason.DEMOTED, batch))

    def _look_again(
        self, paths: list[Path | None], hashes: tuple[int, ...], pool: Pool, batch: _Batch
    ) -> None:
        """Fill in where blocks came from of which only the removal shows that they were there."""
        for place, (block_hash, path) in enumerate(zip(hashes, paths, strict=True)):
            if path is None and (shown := pool.take_doubtful(block_hash)) is not None:
                paths[place] = shown
                told = (block_hash,), shown.before(block_hash), pool.block_tokens
                batch.events.append(self._stored(pool.tier, *told, batch))
        unseen = paths.count(None)
        if unseen and pool.tier not in self._unsure:
            batch.oddities.append(self._unseen(unseen, pool.tier))

    def _note_ages(self, tier: Tier, paths: Iterable[Path | None], now: float) -> None:
        waiting = self._ages_seconds[tier]
        waiting += [now - path.at_unix_seconds for path in paths if path is not None]
        if len(waiting) >= AGES_AT_ONCE:
            self._count_ages()

    def _count_ages(self) -> None:
        for tier, ages_seconds in self._ages_seconds.items():
            self._ages.observe_each((tier, self.holder), [max(0.0, age) for age in ages_seconds])
            ages_seconds.clear()

    def _stored(
        self, tier: Tier, hashes: tuple[int, ...], parent: int | None, block_tokens: int, batch: _Batch
    ) -> BlockEvent:
        # In order, here and below: names take a third longer, and these are made for every few blocks.
        return BlockEvent(
            tier,
            self.holder,
            BlockAction.STORED,
            hashes,
            batch.at_unix_seconds,
            parent,
            block_tokens,
            None,
            batch.sequence,
            batch.ordinal,
        )

    def _split(
        self, block_hashes: tuple[int, ...], tier: Tier, batch: _Batch
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Removed blocks that no lower tier holds, nor will at the end of the batch, and the others."""
        lower = BELOW[tier]
        below: list[Set[int]] = [pool.blocks for pool in self._pools.values() if pool.tier in lower]
        if coming := batch.coming():
            below += [coming[tier_below] for tier_below in lower if tier_below in coming]
        if not below:
            return block_hashes, ()
        demoted = [any(block_hash in blocks for blocks in below) for block_hash in block_hashes]
        return tuple(compress(block_hashes, map(not_, demoted))), tuple(compress(block_hashes, demoted))

    def _clear(self, batch: _Batch) -> Iterator[BlockEvent]:
        """Empty the GPU cache. Whether host memory was emptied too is not said; files in storage stay."""
        yield from self._evict_all(Tier.L0, EvictionReason.CLEAR, batch)
        known = {key: pool for key, pool in self._pools.items() if pool.tier is not Tier.L1}
        self._unsure -= {Tier.L0}
        if len(known) < len(self._pools):
            self._unsure |= {Tier.L1}
            self._strides = None
        self._pools = known

    def _evict_all(self, tier: Tier, reason: EvictionReason, batch: _Batch) -> Iterator[BlockEvent]:
        hashes = tuple(chain.from_iterable(pool.take_all() for pool in self._of(tier)))
        if hashes:
            yield self._evicted(tier, hashes, reason, batch)

    def _evicted(
        self, tier: Tier, hashes: tuple[int, ...], reason: EvictionReason, batch: _Batch
    ) -> BlockEvent:
        return BlockEvent(
            tier,
            self.holder,
            BlockAction.EVICTED,
            hashes,
            batch.at_unix_seconds,
            None,
            0,
            reason,
            batch.sequence,
            batch.ordinal,
        )

    def _bound(self, batch: _Batch) -> None:
        """Give up following a tier that has become larger than we follow: how full it is becomes absent."""
        self._room = self.most_blocks - sum(map(len, self._pools.values()))
        if self._room >= 0:
            return
        for tier in {pool.tier for pool in self._pools.values()}:
            pools = self._of(tier)
            if sum(map(len, pools)) > self.most_blocks:
                for pool in pools:
                    pool.take_all()
                if tier not in self._unsure:
                    batch.oddities.append(self._too_many(tier))
                self._unsure |= {tier}

    def _unknown_medium(self, medium: str | None, blocks: int) -> Oddity:
        medium = "none" if medium is None else medium[:40]
        error = BadInput(
            f"{blocks} blocks are in the medium {medium!r}, whose tier is not known",
            where=self.where,
            fix="these blocks are in no tier's numbers; report the medium",
        )
        return Oddity(f"medium {medium}", error, blocks)

    def _unseen(self, count: int, tier: Tier) -> Oddity:
        error = BadInput(
            f"{count} blocks left {tier} that were never seen to be stored",
            where=self.where,
            fix="give the engine's replay address, so that its earlier events are read too",
        )
        return Oddity("removal of a block never seen stored", error, count)

    def _too_many(self, tier: Tier) -> Oddity:
        error = BadInput(
            f"more than {self.most_blocks} blocks are told to be in {tier}, and are no longer followed",
            where=self.where,
            fix="how full it is, is absent from here on; a pool's own page or a scan of its mount tells that",
        )
        return Oddity("tier too large to follow", error)


def _stored_below(changes: Iterable[BlockChange]) -> dict[Tier, set[int]]:
    """Blocks that a batch stores in tiers below L0."""
    found: dict[Tier, set[int]] = {}
    for change in changes:
        if type(change) is BlocksStored:
            tier = tier_of_medium(change.medium)
            if tier is not None and tier is not Tier.L0:
                found.setdefault(tier, set()).update(change.block_hashes)
    return found
