"""Block chains as arrays, and how 64-bit block hashes become the small numbers kernels work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace, UInt64Array

MOST_IDS = np.iinfo(np.int32).max
FIRST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class Chains:
    """n requests in order, each a path of blocks from a root of a prefix forest.

    Request i is `ids[offsets[i]:offsets[i + 1]]`; one id always has the same parent, so two paths that
    agree at a place agree everywhere before it. Shapes: `offsets` (n + 1,) int64, `ids` (accesses,)
    int32 below n_ids, each of which should occur: it costs memory.
    """

    offsets: Int64Array
    ids: Int32Array
    n_ids: int

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.offsets) - 1

    @property
    def accesses(self) -> int:
        """Number of block accesses."""
        return len(self.ids)


def chains_of(trace: Trace) -> Chains:
    """The chains of a trace; its ids are dense already."""
    n_ids = int(trace.block_ids.max()) + 1 if trace.accesses else 0
    return Chains(trace.offsets, trace.block_ids, n_ids)


def numbered(hashes: UInt64Array, offsets: Int64Array) -> Chains:
    """Number the hashes of chains in order of first appearance; a hash names all that is before it.

    Request i's chain is `hashes[offsets[i]:offsets[i + 1]]`, from a root on. Raises `BadInput` for more
    distinct hashes than int32 can number.
    """
    with np.errstate(over="ignore"):  # for interpreted runs: there numpy speaks of a product that wraps
        ids, n_ids = _number_in_order(np.ascontiguousarray(hashes), offsets)
    if n_ids < 0:
        raise BadInput(
            f"more than {MOST_IDS} distinct blocks",
            where="a window of requests",
            fix="ask for a shorter span of time",
        )
    return Chains(offsets, ids, n_ids)


class _News(NamedTuple):
    """Runs of blocks that were new when they came: where they stand, and the number of their first block.

    Run r stands at `place[r]` and has numbers from `number[r]` to below `number[r + 1]`. Shapes: (room,).
    """

    place: Int64Array
    number: Int64Array


@njit(cache=True, nogil=True)
def _number_in_order(hashes: UInt64Array, offsets: Int64Array) -> tuple[Int32Array, int]:
    """Number hashes, a run at a time; at most half of the table's slots, a power of two, hold a run.

    As a hash names all that is before it, what follows a new block is new. So blocks that were new in a row
    have numbers in a row, only the first of them can be come upon from elsewhere and is in the table, and
    two chains agree up to one place: O(runs x log length) hashes are looked at, of however many there are.
    """
    slots = np.full(FIRST_SLOTS, -1, np.int32)
    news = _News(np.empty(FIRST_SLOTS // 2, np.int64), np.empty(FIRST_SLOTS // 2 + 1, np.int64))
    ids = np.empty(len(hashes), np.int32)
    runs = 0
    n_ids = 0
    for request in range(len(offsets) - 1):
        place, end = offsets[request], offsets[request + 1]
        while place < end:
            slot = _slot_of(hashes[place], hashes, slots, news)
            if slots[slot] >= 0:
                place = _follow(hashes, place, end, int(slots[slot]), runs, news, ids)
                continue
            if n_ids + end - place > MOST_IDS:
                return ids, -1
            if runs == len(news.place):
                slots, news = _doubled(hashes, slots, news)
                slot = _slot_of(hashes[place], hashes, slots, news)
            slots[slot] = runs
            news.place[runs] = place
            news.number[runs] = n_ids
            runs += 1
            _count_up(ids, place, end, n_ids)
            n_ids += end - place
            news.number[runs] = n_ids
            place = end
    return ids, n_ids


@njit(cache=True)
def _count_up(ids: Int32Array, place: int, end: int, number: int) -> None:
    for k in range(place, end):
        ids[k] = number + k - place


@njit(cache=True)
def _follow(
    hashes: UInt64Array, place: int, end: int, run: int, runs: int, news: _News, ids: Int32Array
) -> int:
    """Number what comes from `place` on as it did in a run, and in those right after it; where that ends."""
    while True:
        length = news.number[run + 1] - news.number[run]
        agree = _agreeing(hashes, place, news.place[run], min(length, end - place))
        _count_up(ids, place, place + agree, news.number[run])
        place += agree
        run += 1
        if agree < length or place == end or run == runs or hashes[news.place[run]] != hashes[place]:
            return place


@njit(cache=True)
def _agreeing(hashes: UInt64Array, one: int, other: int, most: int) -> int:
    """How many hashes from two places on agree, of at most `most`; the first ones do.

    Agreement is monotone along a chain: gallop ahead, then halve.
    """
    agree = 0
    step = 1
    while agree + step < most and hashes[one + agree + step] == hashes[other + agree + step]:
        agree += step
        step *= 2
    differ = min(agree + step, most)
    while agree + 1 < differ:
        middle = (agree + differ) // 2
        if hashes[one + middle] == hashes[other + middle]:
            agree = middle
        else:
            differ = middle
    return agree + 1


@njit(cache=True)
def _slot_of(value: np.uint64, hashes: UInt64Array, slots: Int32Array, news: _News) -> int:
    """The slot that holds the run a hash begins, or the free one where it belongs: linear probing.

    The low bits of a hash are as good as random, but hashes that are small counters are not, so they
    are folded and multiplied by 2^64 / golden ratio (Fibonacci hashing: Knuth, TAOCP vol. 3, 6.4).
    """
    mask = len(slots) - 1
    mixed = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    slot = int(mixed >> np.uint64(32)) & mask
    while slots[slot] >= 0 and hashes[news.place[slots[slot]]] != value:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _doubled(hashes: UInt64Array, slots: Int32Array, news: _News) -> tuple[Int32Array, _News]:
    """The same full table with room for twice as many."""
    runs = len(news.place)
    larger = np.full(2 * len(slots), -1, np.int32)
    room = _News(np.empty(2 * runs, np.int64), np.empty(2 * runs + 1, np.int64))
    room.place[:runs] = news.place
    room.number[: runs + 1] = news.number
    for run in range(runs):
        larger[_slot_of(hashes[room.place[run]], hashes, larger, room)] = run
    return larger, room
