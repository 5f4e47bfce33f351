"""The blocks of one medium of one cache group, as far as an engine's events tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from exporters.vllm.events import BlocksStored
from tierscope.domain.tiers import Tier

CHAINED_KINDS = frozenset({None, "full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of cache in which a block is of use only while all blocks before it are there; None: not said."""


MOST_DOUBTFUL = 100_000
"""Blocks remembered as perhaps held once more than counted; the oldest are forgotten."""


MOST_TOLD = 16
"""Times one block is remembered to have been told again."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a tier holds: distinct whole blocks, further copies of them, and blocks without an ancestor.

    `block_tokens` is the size of a whole block there, None where no event told it.
    """

    distinct: int
    duplicates: int
    orphans: int
    block_tokens: int | None = None


Doubtful = tuple[float, int | None]


@dataclass(slots=True)
class Pool:
    """Copies by hash. `chained` says whether a block needs its ancestors."""

    tier: Tier
    chained: bool = True
    block_tokens: int = 0
    """Tokens of a whole block, 0 until one was told."""
    duplicates: int = 0
    _stored_at: dict[int, float] = field(default_factory=dict)
    """When each block was stored: its oldest copy."""
    _copies: dict[int, list[float]] = field(default_factory=dict)
    """When its further copies were stored; hardly any block has them."""
    _parents: dict[int, int] = field(default_factory=dict)
    _partial: set[int] = field(default_factory=set)
    """Blocks that hold less than a whole block's tokens."""
    _doubtful: dict[int, list[Doubtful]] = field(default_factory=dict)
    """Blocks that were told again, which may have been further copies: when, after which parent."""

    @property
    def blocks(self) -> Set[int]:
        """The distinct blocks, as they are now and later."""
        return self._stored_at.keys()

    @property
    def parents(self) -> Mapping[int, int]:
        """The block before each resident block that has one."""
        return self._parents

    def __len__(self) -> int:
        """Copies, all counted."""
        return len(self._stored_at) + self.duplicates

    def add(self, stored: BlocksStored, at_unix_seconds: float) -> None:
        """Count one more copy of each block of a path, at least one; nearly always the first."""
        hashes = stored.block_hashes
        self.chained = stored.kind in CHAINED_KINDS
        self._note_size(hashes, stored.block_tokens)
        first = dict.fromkeys(hashes, at_unix_seconds)
        if len(first) == len(hashes) and self._stored_at.keys().isdisjoint(first):
            self._stored_at.update(first)
        else:
            for block_hash in hashes:
                self._add_copy(block_hash, at_unix_seconds)
        if self.chained:
            if stored.parent_hash is not None:
                self._parents[hashes[0]] = stored.parent_hash
            if len(hashes) > 1:
                self._parents.update(zip(hashes[1:], hashes, strict=False))

    def take(self, block_hash: int) -> float | None:
        """Count one copy less, the oldest; return when it was stored, None where there was none."""
        copies = self._copies.get(block_hash)
        if copies:
            stored_at, self._stored_at[block_hash] = self._stored_at[block_hash], copies.pop(0)
            self.duplicates -= 1
            if not copies:
                del self._copies[block_hash]
            return stored_at
        self._parents.pop(block_hash, None)
        self._partial.discard(block_hash)
        return self._stored_at.pop(block_hash, None)

    def doubt(self, stored: BlocksStored, at_unix_seconds: float) -> None:
        """Note that blocks were told again: copies, or the same blocks reused. Their removals will show."""
        parent = stored.parent_hash
        for block_hash in stored.block_hashes:
            told = self._doubtful.setdefault(block_hash, [])
            told.append((at_unix_seconds, parent))
            del told[:-MOST_TOLD]
            parent = block_hash
        while len(self._doubtful) > MOST_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]

    def take_doubtful(self, block_hash: int) -> Doubtful | None:
        """Return when and after which parent a copy was stored that shows only now; None where none was."""
        told = self._doubtful.get(block_hash)
        if told is None:
            return None
        found = told.pop(0)
        if not told:
            del self._doubtful[block_hash]
        return found

    def take_all(self) -> tuple[int, ...]:
        """Empty the pool; return its blocks, each once a copy."""
        further = [found for found, copies in self._copies.items() for _ in copies]
        found = (*self._stored_at, *further)
        for memory in (self._stored_at, self._copies, self._parents, self._partial, self._doubtful):
            memory.clear()
        self.duplicates = 0
        return found

    def holds_all(self, block_hashes: Iterable[int]) -> bool:
        """Whether every one of the blocks is here."""
        return all(block_hash in self._stored_at for block_hash in block_hashes)

    def snapshot(self) -> tuple[int, int, Mapping[int, int], Set[int]]:
        """Distinct whole blocks, further copies, parents and blocks, for `count_orphans` at leisure."""
        distinct = len(self._stored_at) - len(self._partial)
        if not self.chained:
            return distinct, self.duplicates, {}, frozenset()
        return distinct, self.duplicates, self._parents.copy(), set(self._stored_at)

    def _add_copy(self, block_hash: int, at_unix_seconds: float) -> None:
        if block_hash in self._stored_at:
            self._copies.setdefault(block_hash, []).append(at_unix_seconds)
            self.duplicates += 1
        else:
            self._stored_at[block_hash] = at_unix_seconds

    def _note_size(self, block_hashes: tuple[int, ...], block_tokens: int) -> None:
        if block_tokens >= self.block_tokens:
            if self.block_tokens and block_tokens > self.block_tokens:
                self._partial.update(self._stored_at)  # what came before a first whole block is not whole
            self.block_tokens = block_tokens
        elif block_tokens:
            self._partial.update(block_hashes)


def count_orphans(parents: Mapping[int, int], blocks: Set[int]) -> int:
    """Blocks of which an ancestor is not among the blocks. A block without a known parent is a root.

    Each block is climbed from once: a path that was judged before is not climbed again.
    """
    sound: set[int] = set()
    orphans: set[int] = set()
    for start in blocks:
        block, path = start, []
        while block in blocks and block not in sound and block not in orphans:
            path.append(block)
            parent = parents.get(block)
            if parent is None or len(path) > len(blocks):
                break
            block = parent
        lost = block not in blocks or block in orphans
        (orphans if lost else sound).update(path)
    return len(orphans)
