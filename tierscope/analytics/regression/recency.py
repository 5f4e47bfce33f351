"""How long ago a block was asked for, as the number of other blocks asked for since.

That number, and no time, decides whether a cache that drops the least recently used still has the block, so
it is what hits are expected by. A request touches a whole path at once: blocks carry the number of the
request that touched them last, and a Fenwick tree counts how many blocks each request still is the last of.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

DEFAULT_MOST_REQUESTS = 16_384
"""Requests told apart; blocks that were touched before these are as far away as the oldest of them."""


class Section(NamedTuple):
    """`blocks` that follow each other in a chain, all touched last by the same request."""

    distance_blocks: int
    """Other blocks that were asked for since."""
    blocks: int


class Recency:
    """Blocks in the order of their last touch; beyond `most_blocks` the longest untouched are forgotten.

    Hashes name their whole prefix and a request touches a whole path, leaf first: what is known of a chain is
    a prefix of it, and along it touches get older.
    """

    def __init__(self, most_blocks: int, most_requests: int = DEFAULT_MOST_REQUESTS) -> None:
        self.most_blocks = most_blocks
        self._most_requests = most_requests
        self._touched: dict[int, int] = {}
        self._first = 0
        """Number of the oldest request told apart."""
        self._counts: list[int] = []
        """Blocks that each request from `first` on touched last."""
        self._tree = [0]
        self._counted = 0
        """Sum of `counts`."""

    def __len__(self) -> int:
        return len(self._touched)

    def sections(self, chain: Sequence[int]) -> list[Section]:
        """The known part of a chain."""
        known = bisect_left(chain, True, key=lambda block: block not in self._touched)
        found, start = [], 0
        while start < known:
            request = self._touched[chain[start]]
            end = self._end_of(request, chain, start, known)
            found.append(Section(self._counted - self._counted_until(request), end - start))
            start = end
        return found

    def touch(self, chain: Sequence[int]) -> None:
        """A request asks for all of it."""
        if len(self._counts) >= 2 * self._most_requests:
            self._forget_requests()
        request = self._first + len(self._counts)
        self._append()
        touched, moved = self._touched, Counter[int | None]()
        for block in reversed(chain):  # a leaf goes before its root
            moved[touched.pop(block, None)] += 1
            touched[block] = request
        again = moved.pop(request, 0)  # a chain that names a block twice
        self._count(request, len(chain) - again)
        for before, blocks in moved.items():
            if before is not None:
                self._count(before, -blocks)
        while len(touched) > self.most_blocks:
            oldest = next(iter(touched))
            self._count(touched.pop(oldest), -1)

    def _end_of(self, request: int, chain: Sequence[int], start: int, known: int) -> int:
        return bisect_left(chain, True, start, known, key=lambda block: self._touched[block] != request)

    def _append(self) -> None:
        end = len(self._tree)
        child, total = end - 1, 0
        while child > end - (end & -end):
            total += self._tree[child]
            child -= child & -child
        self._counts.append(0)
        self._tree.append(total)

    def _count(self, request: int, blocks: int) -> None:
        index = request - self._first
        if index < 0:
            return
        self._counts[index] += blocks
        self._counted += blocks
        place = index + 1
        while place < len(self._tree):
            self._tree[place] += blocks
            place += place & -place

    def _counted_until(self, request: int) -> int:
        place, total = request - self._first + 1, 0
        while place > 0:
            total += self._tree[place]
            place &= place - 1
        return total

    def _forget_requests(self) -> None:
        kept = self._counts[-self._most_requests :]
        self._first += len(self._counts) - len(kept)
        self._counts, self._tree, self._counted = [], [0], 0
        for request, blocks in enumerate(kept, self._first):
            self._append()
            self._count(request, blocks)
