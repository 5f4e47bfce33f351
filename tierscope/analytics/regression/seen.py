"""What could have been served: how much of each prompt was asked for before, and on which engine last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

DEFAULT_MOST_BLOCKS = 4_000_000


class Reusable(NamedTuple):
    """Leading blocks of a chain that were asked for before.

    `here` were asked for on this engine last, `elsewhere` on another; `foreign` are those of the latter that
    this engine never was asked for. They end the known part of the chain: what an engine was asked for is a
    prefix.
    """

    here: int
    elsewhere: int
    foreign: int


class SeenBlocks:
    """Blocks that requests asked for, and on which engines; the longest unasked go first.

    Hashes name their whole prefix, and a request asks for a whole path: what was seen of a chain is a prefix
    of it, so its end is found by bisection. Engines are small numbers.
    """

    def __init__(self, most_blocks: int = DEFAULT_MOST_BLOCKS) -> None:
        self._most_blocks = most_blocks
        self._last: dict[int, int] = {}
        self._ever: dict[int, int] = {}
        """Bit n: engine n was asked."""

    def ask(self, chain: Sequence[int], engine: int) -> Reusable:
        """What was seen of the chain; then all of it is seen, on this engine."""
        last, ever, bit = self._last, self._ever, 1 << engine
        seen = _leading(chain, last)
        here = sum(last[block] == engine for block in chain[:seen])
        foreign = sum(not ever[block] & bit for block in chain[:seen])
        for block in reversed(chain):  # a leaf goes before its root
            last.pop(block, None)
            last[block] = engine
            ever[block] = ever.get(block, 0) | bit
        while len(last) > self._most_blocks:
            oldest = next(iter(last))
            del last[oldest], ever[oldest]
        return Reusable(here, seen - here, foreign)


def _leading(chain: Sequence[int], known: dict[int, int]) -> int:
    low, high = 0, len(chain)
    while low < high:
        middle = (low + high) // 2
        if chain[middle] in known:
            low = middle + 1
        else:
            high = middle
    return low
