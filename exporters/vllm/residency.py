"""Which blocks an engine holds, from its KV events, and the block events that follow from them.

One hash may be stored in several physical blocks, so every medium counts copies (one stream is one rank).
What an engine announces are copies: stored minus evicted copies is what is there. Two things
are not said and must be told from the rest: a store that only announces reused blocks again
(`kv_cache_report_mode="full"`), and whether a clear emptied more than the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby

from exporters.oddities import Oddity
from exporters.vllm.events import (
    BlockChange,
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    ChangeBatch,
    tier_of_medium,
)
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.tiers import Tier


@dataclass(slots=True)
class _Pool:
    """Copies by hash in one medium of one cache group."""

    tier: Tier
    copies: dict[int, int] = field(default_factory=dict)

    def add(self, block_hashes: tuple[int, ...]) -> None:
        """Count one more copy of each block; nearly always the first."""
        first = dict.fromkeys(block_hashes, 1)
        if len(first) == len(block_hashes) and self.copies.keys().isdisjoint(first):
            self.copies.update(first)
            return
        for block_hash in block_hashes:
            self.copies[block_hash] = self.copies.get(block_hash, 0) + 1


@dataclass(slots=True)
class Residency:
    """Follows one engine's KV events. `holder` names it in the block events; `where` in messages.

    Used by one thread; `resident` and `stale` may be read by others.
    """

    holder: str
    where: str
    _pools: dict[tuple[str | None, int], _Pool] = field(default_factory=dict)
    _unsure: frozenset[Tier] = frozenset()

    def apply(self, batch: ChangeBatch) -> tuple[list[BlockEvent], list[Oddity]]:
        """Take one batch; return what happened to blocks, neighbouring removals joined, and what was odd."""
        events: list[BlockEvent] = []
        oddities: list[Oddity] = []
        for change in _joined(batch.changes):
            events += self._change(change, batch.at_unix_seconds, oddities)
        return events, oddities

    def lost(self) -> None:
        """Events were lost: what is resident is unknown until a clear or a restart."""
        self._pools.clear()
        self._unsure = frozenset(Tier)

    def restart(self, at_unix_seconds: float) -> list[BlockEvent]:
        """The engine began anew: its memory is empty, files in storage are still there."""
        memory = (Tier.L0, Tier.L1)
        self._unsure -= set(memory)
        return [
            event
            for tier in memory
            for event in self._evict_all(tier, EvictionReason.RESTART, at_unix_seconds)
        ]

    def resident(self, tier: Tier) -> int | None:
        """Distinct blocks in a tier; None where that cannot be known or nothing was ever said of it."""
        if tier in self._unsure:
            return None
        pools = [pool for pool in list(self._pools.values()) if pool.tier is tier]
        return sum(len(pool.copies) for pool in pools) if pools else None

    @property
    def stale(self) -> bool:
        """Whether events were lost and nothing has made the state of the GPU cache known again."""
        return Tier.L0 in self._unsure

    def _change(
        self, change: BlockChange, at_unix_seconds: float, oddities: list[Oddity]
    ) -> Iterator[BlockEvent]:
        if isinstance(change, BlocksCleared):
            yield from self._clear(at_unix_seconds)
            return
        tier = tier_of_medium(change.medium)
        if not change.block_hashes:
            return
        if tier is None:
            oddities.append(self._unknown_medium(change))
            return
        pool = self._pools.setdefault((change.medium, change.group), _Pool(tier))
        if isinstance(change, BlocksRemoved):
            yield self._removed(change, pool, at_unix_seconds, oddities)
        elif not _announces_again(change, pool):
            pool.add(change.block_hashes)
            yield BlockEvent(
                tier=tier,
                holder=self.holder,
                action=BlockAction.STORED,
                block_hashes=change.block_hashes,
                at_unix_seconds=at_unix_seconds,
                parent_hash=change.parent_hash,
                block_tokens=change.block_tokens,
            )

    def _removed(
        self, change: BlocksRemoved, pool: _Pool, at_unix_seconds: float, oddities: list[Oddity]
    ) -> BlockEvent:
        unseen = 0
        for block_hash in change.block_hashes:
            copies = pool.copies.get(block_hash, 0)
            if copies > 1:
                pool.copies[block_hash] = copies - 1
            elif copies == 1:
                del pool.copies[block_hash]
            else:
                unseen += 1
        if unseen and pool.tier not in self._unsure:
            oddities.append(self._unseen(unseen, pool.tier))
        return self._evicted(pool.tier, change.block_hashes, EvictionReason.CAPACITY, at_unix_seconds)

    def _clear(self, at_unix_seconds: float) -> Iterator[BlockEvent]:
        """Empty the GPU cache. Whether host memory was emptied too is not said; files in storage stay."""
        yield from self._evict_all(Tier.L0, EvictionReason.CLEAR, at_unix_seconds)
        known = {key: pool for key, pool in self._pools.items() if pool.tier is not Tier.L1}
        self._unsure -= {Tier.L0}
        if len(known) < len(self._pools):
            self._unsure |= {Tier.L1}
        self._pools = known

    def _evict_all(self, tier: Tier, reason: EvictionReason, at_unix_seconds: float) -> Iterator[BlockEvent]:
        for pool in self._pools.values():
            if pool.tier is tier and pool.copies:
                hashes = tuple(found for found, copies in pool.copies.items() for _ in range(copies))
                pool.copies.clear()
                yield self._evicted(tier, hashes, reason, at_unix_seconds)

    def _evicted(
        self, tier: Tier, hashes: tuple[int, ...], reason: EvictionReason, at_unix_seconds: float
    ) -> BlockEvent:
        return BlockEvent(
            tier=tier,
            holder=self.holder,
            action=BlockAction.EVICTED,
            block_hashes=hashes,
            at_unix_seconds=at_unix_seconds,
            reason=reason,
        )

    def _unknown_medium(self, change: BlocksStored | BlocksRemoved) -> Oddity:
        medium = "none" if change.medium is None else change.medium[:40]
        error = BadInput(
            f"{len(change.block_hashes)} blocks are in the medium {medium!r}, whose tier is not known",
            where=self.where,
            fix="these blocks are in no tier's numbers; report the medium",
        )
        return Oddity(f"medium {medium}", error, len(change.block_hashes))

    def _unseen(self, count: int, tier: Tier) -> Oddity:
        error = BadInput(
            f"{count} blocks left {tier} that were never seen to be stored",
            where=self.where,
            fix="give the engine's replay address, so that its earlier events are read too",
        )
        return Oddity("removal of a block never seen stored", error, count)


def _announces_again(change: BlocksStored, pool: _Pool) -> bool:
    """Whether a store only tells of reused blocks: it begins at the root and every block is there already.

    A second physical copy looks different: it has a parent, because vLLM merges equal blocks up to the last.
    """
    return change.parent_hash is None and all(found in pool.copies for found in change.block_hashes)


def _joined(changes: Iterable[BlockChange]) -> Iterator[BlockChange]:
    """The same changes with neighbouring removals from one medium in one: vLLM sends one a block."""
    for place, run in groupby(changes, _place_of_removal):
        if place is None:
            yield from run
        else:
            hashes = chain.from_iterable(c.block_hashes for c in run if isinstance(c, BlocksRemoved))
            yield BlocksRemoved(*place, tuple(hashes))


def _place_of_removal(change: BlockChange) -> tuple[str | None, int] | None:
    return (change.medium, change.group) if isinstance(change, BlocksRemoved) else None
