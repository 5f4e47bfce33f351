"""How long ago a block was asked for, as the number of other blocks asked for since.

That number, and no time, decides whether a cache that drops the least recently used still has the block, so
it is what hits are expected by. A request touches a whole path at once: blocks carry the number of the
request that touched them last, and a Fenwick tree counts how many blocks each request still is the last of.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple

DEFAULT_MOST_REQUESTS = 16_384
"""Requests told apart; blocks that were touched before these are as far away as the oldest of them."""


BATCHES = 64
"""One part of so many is forgotten when there is too much."""


class Section(NamedTuple):
    """`blocks` that follow each other in a chain, all touched last by the same request."""

    distance_blocks: int
    """Other blocks that were asked for since."""
    blocks: int


class Recency:
    """Blocks in the order of their last touch.

    Hashes name their whole prefix and a request touches a whole path, leaf first: what is known of a chain is
    a prefix of it, and along it touches get older.
    """

    def __init__(self, most_requests: int = DEFAULT_MOST_REQUESTS) -> None:
        self._most_requests = most_requests
        self._touched: dict[int, int] = {}
        """The number of the request that touched a block last, oldest first."""
        self._numbers: list[int] = []
        """The requests told apart, oldest first."""
        self._counts: list[int] = []
        """Blocks that each of them touched last."""
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

    def touch(self, chain: Sequence[int], request: int) -> int:
        """A request asks for all of it, with a higher number than any before; returns how many are new."""
        if len(self._counts) >= 2 * self._most_requests:
            self._forget_requests()
        self._append(request)
        touched, moved, known = self._touched, Counter[int | None](), len(self._touched)
        for block in reversed(chain):  # a leaf goes before its root
            moved[touched.pop(block, None)] += 1
            touched[block] = request
        again = moved.pop(request, 0)  # a chain that names a block twice
        self._count(request, len(chain) - again)
        for before, blocks in moved.items():
            if before is not None:
                self._count(before, -blocks)
        return len(touched) - known

    def by_age(self) -> Iterator[tuple[int, list[int]]]:
        """Requests, and the blocks that each touched last: oldest first."""
        for request, touched in groupby(self._touched.items(), itemgetter(1)):
            yield request, [block for block, _ in touched]

    def forget(self, request: int, blocks: Sequence[int]) -> None:
        """Forget some of what this request touched last."""
        for block in blocks:
            del self._touched[block]
        self._count(request, -len(blocks))

    def _end_of(self, request: int, chain: Sequence[int], start: int, known: int) -> int:
        return bisect_left(chain, True, start, known, key=lambda block: self._touched[block] != request)

    def _append(self, request: int) -> None:
        end = len(self._tree)
        child, total = end - 1, 0
        while child > end - (end & -end):
            total += self._tree[child]
            child -= child & -child
        self._numbers.append(request)
        self._counts.append(0)
        self._tree.append(total)

    def _place(self, request: int) -> int:
        """In the tree, from 1 on; 0 for a request that is no longer told apart."""
        return bisect_right(self._numbers, request)

    def _count(self, request: int, blocks: int) -> None:
        place = self._place(request)
        if not place:
            return
        self._counts[place - 1] += blocks
        self._counted += blocks
        while place < len(self._tree):
            self._tree[place] += blocks
            place += place & -place

    def _counted_until(self, request: int) -> int:
        place, total = self._place(request), 0
        while place > 0:
            total += self._tree[place]
            place &= place - 1
        return total

    def _forget_requests(self) -> None:
        kept = zip(self._numbers[-self._most_requests :], self._counts[-self._most_requests :], strict=True)
        self._numbers, self._counts, self._tree, self._counted = [], [], [0], 0
        for request, blocks in kept:
            self._append(request)
            self._count(request, blocks)


class Recencies:
    """Several that share a bound: beyond `most_blocks` in all, what nobody asked for longest is forgotten."""

    def __init__(self, most_blocks: int) -> None:
        self._most_blocks = most_blocks
        self._of: dict[Hashable, Recency] = {}
        self._blocks = 0
        self._requests = 0

    def __len__(self) -> int:
        return self._blocks

    def sections(self, key: Hashable, chain: Sequence[int]) -> list[Section]:
        """The known part of a chain, in the one of that name."""
        known = self._of.get(key)
        return [] if known is None else known.sections(chain)

    def touch(self, key: Hashable, chain: Sequence[int]) -> None:
        """A request asks the one of that name for all of the chain."""
        if not chain:
            return
        self._requests += 1
        self._blocks += self._of.setdefault(key, Recency()).touch(chain, self._requests)
        if self._blocks > self._most_blocks:
            # Finding the oldest passes over the gaps that others left, so many are forgotten at once.
            self._forget(self._blocks - (self._most_blocks - self._most_blocks // BATCHES))

    def _forget(self, blocks: int) -> None:
        """Forget so many; each of those that share the bound is passed over once, however they alternate."""
        for recency, request, of_request in list(self._oldest(blocks)):
            recency.forget(request, of_request)
        self._of = {key: recency for key, recency in self._of.items() if recency}
        self._blocks -= blocks

    def _oldest(self, blocks: int) -> Iterator[tuple[Recency, int, list[int]]]:
        """So many of all, by request, and where each request's are."""
        by_age = merge(
            *(zip(one.by_age(), repeat(one), strict=False) for one in self._of.values()),
            key=lambda aged: aged[0][0],
        )
        for (request, touched), recency in by_age:
            yield recency, request, touched[:blocks]
            blocks -= len(touched)
            if blocks <= 0:
                return
