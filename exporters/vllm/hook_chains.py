"""Block chains from hook records, which may name only the blocks that are new to who listens.

A hash names its whole prefix, so a chain is found again by its last known hash.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from exporters.vllm.hook import HashDelta
from tierscope.domain.units import BLOCK_HASH_MASK, block_hash_of_bytes

ROOT = -1
"""Parent of a first block; no block hash is negative."""

MOST_BLOCKS = 500_000
"""Blocks remembered for one engine, the least recently used half of them at a time forgotten."""


@dataclass(slots=True)
class ChainMemory:
    """Parents of blocks by hash, in two generations: what was used lately survives the turn of one.

    A block of the young generation has all its ancestors there.
    """

    most_blocks: int = MOST_BLOCKS
    _young: dict[int, int] = field(default_factory=dict)
    _old: dict[int, int] = field(default_factory=dict)

    def resolve(self, hashes: list[bytes | int] | HashDelta | None) -> tuple[int, ...] | None:
        """Return the whole chain, root first, and remember it; None where its anchor is not known."""
        if not isinstance(hashes, HashDelta):
            chain = tuple(map(_number, hashes or ()))
        else:
            known = self._chain_of(hashes.anchor, hashes.start)
            if known is None:
                return None
            chain = (*known, *map(_number, hashes.new))
        self._remember(chain)
        return chain

    def forget(self) -> None:
        """Forget everything: the engine began anew and so does what it takes for known."""
        self._young.clear()
        self._old.clear()

    def _chain_of(self, anchor: bytes | int | None, length: int) -> tuple[int, ...] | None:
        """Return the chain of `length` blocks that ends in the anchor, None where it is not known whole."""
        if length == 0:
            return ()
        chain: list[int] = []
        block = ROOT if anchor is None else _number(anchor)
        while block != ROOT and len(chain) < length:
            chain.append(block)
            parent = self._young.get(block, self._old.get(block))
            if parent is None:
                return None
            block = parent
        return tuple(reversed(chain)) if block == ROOT and len(chain) == length else None

    def _remember(self, chain: tuple[int, ...]) -> None:
        """Note each block's parent, from the end until a block that was used lately."""
        if len(self._young) + len(chain) > self.most_blocks // 2:
            self._old, self._young = self._young, {}
        for place in range(len(chain) - 1, -1, -1):
            if chain[place] in self._young:
                return
            self._young[chain[place]] = chain[place - 1] if place else ROOT


def _number(block_hash: bytes | int) -> int:
    return block_hash_of_bytes(block_hash) if isinstance(block_hash, bytes) else block_hash & BLOCK_HASH_MASK
