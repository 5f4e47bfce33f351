"""Blocks that host memory holds and whose events never came: holes between the blocks it is said to hold.

Where several tensor-parallel ranks hold the same heads, each stores every n-th block alone. An engine that
tells only what all its ranks told, or what one of them did, leaves out the rest: what it has said of its host
memory names every n-th block of a chain that the GPU's events name whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

ParentOf = Callable[[int], int | None]
"""The block before a block; None where there is none, or none is known."""

WIDEST = 16
"""Blocks looked back over: no engine has more ranks that hold the same heads."""

FEWEST = 16
"""Holes from which on they are no accident."""

SHARE = 0.5
"""Share of the judged blocks that lie behind a hole. Refused stores leave few holes, and long ones."""

MOST_BLOCKS = 50_000
"""Told blocks remembered, the oldest forgotten first, each with the hole before it."""


@dataclass(slots=True)
class Strides:
    """What one engine says of its host memory, held against the chains of its GPU cache."""

    _told: dict[int, None] = field(default_factory=dict)
    _holes: dict[int, int] = field(default_factory=dict)
    """Blocks never told, right before one that was and behind another that was: how many in a row."""
    _judged: dict[int, int] = field(default_factory=dict)
    """Told blocks of which the one before is known, with that one: a block told twice is judged once."""

    def look(self, block_hashes: tuple[int, ...], parent_of: ParentOf) -> None:
        """Take blocks that host memory is said to have got; `parent_of` knows the GPU's chains."""
        for block_hash in block_hashes:
            self._told[block_hash] = None
            self._holes.pop(block_hash, None)  # it only came later
            before = parent_of(block_hash)
            if before is None:
                continue
            self._judged[block_hash] = before
            width = self._width(before, parent_of)
            if width:
                self._holes[before] = width
        while len(self._told) > MOST_BLOCKS:
            self._forget(next(iter(self._told)))

    @property
    def stride(self) -> int | None:
        """Of how many blocks in a row one is told; None where all of them are."""
        if len(self._holes) < max(FEWEST, SHARE * len(self._judged)):
            return None
        ((width, _),) = Counter(self._holes.values()).most_common(1)
        return width + 1

    @property
    def seen(self) -> tuple[int, int]:
        """Holes, and blocks judged."""
        return len(self._holes), len(self._judged)

    def _forget(self, block_hash: int) -> None:
        del self._told[block_hash]
        before = self._judged.pop(block_hash, None)
        if before is not None:
            self._holes.pop(before, None)

    def _width(self, before: int, parent_of: ParentOf) -> int:
        """How many blocks from `before` upwards were never told; 0 where none above them was."""
        block: int | None = before
        for width in range(WIDEST):
            if block is None:
                break
            if block in self._told:
                return width
            block = parent_of(block)
        return 0
