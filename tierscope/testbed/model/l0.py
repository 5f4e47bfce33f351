"""L0 of one engine: physical GPU blocks with reference counts and a free list in vLLM's order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """Full blocks that can be hit from now on; `parent` precedes the first, None at a root."""

    parent: int | None
    hashes: Sequence[int]
    salt: str | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    """Blocks whose content is gone because their memory was given to others, in that order."""

    hashes: Sequence[int]


BlockChange = Stored | Removed

_NO_HASH = -1


class BlockPool:
    """The blocks of one engine.

    A block is pinned while a request refers to it. An unpinned block keeps its content and waits in
    the free list, least recently freed first, until its memory is needed; a request's blocks are freed
    last block first, so a prefix outlives its continuations. Two blocks may hold the same content
    (both were computed before either could be hit); each is stored and removed on its own.
    `changes` collects what an engine would publish; whoever publishes takes it.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.changes: list[BlockChange] = []
        self._references = [0] * blocks
        self._hash = [_NO_HASH] * blocks
        self._free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(blocks))
        self._holder: dict[int, int] = {}
        self._twins: dict[int, list[int]] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks that no request refers to, whatever they hold."""
        return len(self._free)

    @property
    def cached_blocks(self) -> int:
        """Blocks whose content can be hit."""
        return len(self._holder) + sum(map(len, self._twins.values()))

    def leading(self, hashes: Sequence[int], most: int) -> int:
        """How many of the first `most` blocks of a chain can be hit, without a gap."""
        holder = self._holder
        for position in range(min(most, len(hashes))):
            if hashes[position] not in holder:
                return position
        return min(most, len(hashes))

    def take(self, hashes: Sequence[int], hit: int, new: int) -> list[int] | None:
        """Pin the first `hit` blocks of a chain and `new` blank ones; without room None, and nothing done."""
        holder, references, free = self._holder, self._references, self._free
        pinned = [holder[value] for value in hashes[:hit]]
        idle = sum(1 for block in pinned if not references[block])
        if len(free) - idle < new:
            return None
        for block in pinned:
            if not references[block]:
                del free[block]
            references[block] += 1
        return pinned + self._blanks(new)

    def seal(
        self, blocks: Sequence[int], hashes: Sequence[int], parent: int | None, salt: str | None = None
    ) -> None:
        """Let full blocks be hit: `blocks[i]` holds `hashes[i]`, and `parent` precedes the first."""
        if not blocks:
            return
        for block, value in zip(blocks, hashes, strict=True):
            self._hash[block] = value
            if self._holder.setdefault(value, block) != block:
                self._twins.setdefault(value, []).append(block)
        self.changes.append(Stored(parent, hashes, salt))

    def release(self, blocks: Sequence[int]) -> None:
        """Unpin a request's blocks, given from first to last."""
        references, free = self._references, self._free
        for block in reversed(blocks):
            references[block] -= 1
            if not references[block]:
                free[block] = None

    def _blanks(self, count: int) -> list[int]:
        """Give out the blocks that were free longest; what they held can no longer be hit."""
        free, hash_of, holder, twins = self._free, self._hash, self._holder, self._twins
        blocks = [free.popitem(last=False)[0] for _ in range(count)]
        removed: list[int] = []
        for block in blocks:
            self._references[block] = 1
            value = hash_of[block]
            if value == _NO_HASH:
                continue
            hash_of[block] = _NO_HASH
            removed.append(value)
            if value in twins:
                self._forget_twin(block, value)
            else:
                del holder[value]
        if removed:
            self.changes.append(Removed(removed))
        return blocks

    def _forget_twin(self, block: int, value: int) -> None:
        twins = self._twins[value]
        if self._holder[value] == block:
            self._holder[value] = twins.pop(0)
        else:
            twins.remove(block)
        if not twins:
            del self._twins[value]
