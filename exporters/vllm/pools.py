"""The blocks of one medium of one cache group, as far as an engine's events tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import repeat

import msgspec

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


class Path(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Blocks that were stored together, each after the one before it: one object for all of their copies.

    So it stays, whole, while one of its blocks is there. Engines evict a path's end first, and other requests
    share its beginning: hardly any is kept for the sake of a few blocks. A path told twice is two.
    """

    at_unix_seconds: float
    parent_hash: int | None
    """The block before the first; None at a root."""
    block_hashes: tuple[int, ...]
    chained: bool = True
    """Whether a block is of use only after the one before it."""

    def before(self, block_hash: int) -> int | None:
        """Return the block before one of the path's; None at a root, or where it needs none."""
        if not self.chained:
            return None
        place = self.block_hashes.index(block_hash)
        return self.block_hashes[place - 1] if place else self.parent_hash


@dataclass(slots=True)
class Pool:
    """Copies by hash. `chained` says whether a block needs its ancestors."""

    tier: Tier
    chained: bool = True
    block_tokens: int = 0
    """Tokens of a whole block, 0 until one was told."""
    duplicates: int = 0
    _stored: dict[int, Path] = field(default_factory=dict)
    """Where each block's oldest copy came from."""
    _copies: dict[int, list[Path]] = field(default_factory=dict)
    """Its further copies; hardly any block has them."""
    _partial: set[int] = field(default_factory=set)
    """Blocks that hold less than a whole block's tokens."""
    _doubtful: dict[int, list[Path]] = field(default_factory=dict)
    """Blocks that were told again, which may have been further copies."""

    @property
    def blocks(self) -> Set[int]:
        """The distinct blocks, as they are now and later."""
        return self._stored.keys()

    def parent_of(self, block_hash: int) -> int | None:
        """Return the block before a resident block; None where it has none, or is not here."""
        path = self._stored.get(block_hash)
        return None if path is None else path.before(block_hash)

    def __len__(self) -> int:
        """Copies, all counted."""
        return len(self._stored) + self.duplicates

    def add(self, stored: BlocksStored, at_unix_seconds: float) -> bool:
        """Count one more copy of each block of a path, at least one; nearly always the first.

        False where the store only tells of reused blocks, which is doubted then: it begins at the root and
        every block is here already. A second physical copy nearly always looks different: it has a parent,
        because vLLM merges equal blocks up to the last one.
        """
        hashes, held = stored.block_hashes, self._stored
        new = held.keys().isdisjoint(hashes)
        if not new and stored.parent_hash is None and self._holds_all(hashes):
            self._doubt(stored, at_unix_seconds)
            return False
        self.chained = stored.kind in CHAINED_KINDS
        if stored.block_tokens != self.block_tokens:
            self._note_size(hashes, stored.block_tokens)
        path = Path(at_unix_seconds, stored.parent_hash, hashes, self.chained)
        if new:
            whole = len(held) + len(hashes)
            held.update(zip(hashes, repeat(path)))
            if len(held) == whole:
                return True
            hashes = _repeated(hashes)
        for block_hash in hashes:
            self._add_copy(block_hash, path)
        return True

    def take_each(self, block_hashes: Sequence[int]) -> list[Path | None]:
        """Count one copy less of each block, the oldest; return where they came from, None for none."""
        if self._copies or self._partial:
            return list(map(self._take, block_hashes))
        return list(map(self._stored.pop, block_hashes, repeat(None)))

    def _take(self, block_hash: int) -> Path | None:
        copies = self._copies.get(block_hash)
        if copies:
            oldest, self._stored[block_hash] = self._stored[block_hash], copies.pop(0)
            self.duplicates -= 1
            if not copies:
                del self._copies[block_hash]
            return oldest
        self._partial.discard(block_hash)
        return self._stored.pop(block_hash, None)

    def _doubt(self, stored: BlocksStored, at_unix_seconds: float) -> None:
        """Note that blocks were told again: copies, or the same blocks reused. Their removals will show."""
        path = Path(at_unix_seconds, stored.parent_hash, stored.block_hashes)
        for block_hash in stored.block_hashes:
            told = self._doubtful.setdefault(block_hash, [])
            told.append(path)
            del told[:-MOST_TOLD]
        while len(self._doubtful) > MOST_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]

    def take_doubtful(self, block_hash: int) -> Path | None:
        """Return where the copy came from that shows only now, by its removal; None where none was told."""
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
        found = (*self._stored, *further)
        for memory in (self._stored, self._copies, self._partial, self._doubtful):
            memory.clear()
        self.duplicates = 0
        return found

    def _holds_all(self, block_hashes: Iterable[int]) -> bool:
        for block_hash in block_hashes:  # noqa: SIM110 - `all` of a generator takes twice as long
            if block_hash not in self._stored:
                return False
        return True

    def snapshot(self) -> tuple[int, int, Mapping[int, Path]]:
        """Distinct whole blocks, further copies, and the blocks, for `count_orphans` at leisure."""
        distinct = len(self._stored) - len(self._partial)
        return distinct, self.duplicates, self._stored.copy() if self.chained else {}

    def _add_copy(self, block_hash: int, path: Path) -> None:
        if block_hash in self._stored:
            self._copies.setdefault(block_hash, []).append(path)
            self.duplicates += 1
        else:
            self._stored[block_hash] = path

    def _note_size(self, block_hashes: tuple[int, ...], block_tokens: int) -> None:
        if block_tokens >= self.block_tokens:
            if self.block_tokens and block_tokens > self.block_tokens:
                self._partial.update(self._stored)  # what came before a first whole block is not whole
            self.block_tokens = block_tokens
        elif block_tokens:
            self._partial.update(block_hashes)


def _repeated(block_hashes: Iterable[int]) -> tuple[int, ...]:
    """What comes once more: each block so many times less one."""
    return tuple((Counter(block_hashes) - Counter(set(block_hashes))).elements())


def count_orphans(blocks: Mapping[int, Path]) -> int:
    """Blocks of which an ancestor is not among the blocks. A block without a known parent is a root.

    Judged path by path: where the first blocks of one are there, all of them are as its first one is. Each
    path is climbed from once.
    """
    sizes = Counter(blocks.values())
    single: dict[int, Path] = {}
    for path in [path for path, size in sizes.items() if not _begins(path, size, blocks)]:
        own = {block_hash for block_hash in path.block_hashes if blocks.get(block_hash) is path}
        single |= {block: Path(path.at_unix_seconds, path.before(block), (block,)) for block in own}
        del sizes[path]
    sizes.update(single.values())
    lost: dict[Path, bool] = {}
    for start in sizes:
        path, way = start, []
        while path not in lost:
            way.append(path)
            parent = path.parent_hash if path.chained else None
            if parent is None or len(way) > len(sizes):  # a circle, which no engine makes, is sound
                break
            if parent not in blocks:
                lost[path] = True
                break
            path = single.get(parent) or blocks[parent]
        lost.update(dict.fromkeys(way, lost.get(path, False)))
    return sum(size for path, size in sizes.items() if lost[path])


def _begins(path: Path, size: int, blocks: Mapping[int, Path]) -> bool:
    """Whether the blocks that are of a path, `size` of them, are its first ones; nearly always all of it."""
    if size == len(path.block_hashes):
        return True
    return list(map(blocks.get, path.block_hashes[:size])).count(path) == size
