"""Block chains as arrays, and how 64-bit block hashes become the small numbers kernels work on."""

from __future__ import annotations

from dataclasses import dataclass

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


def densify(hashes: UInt64Array) -> tuple[Int32Array, int]:
    """Number distinct hashes in order of first appearance: ids (accesses,) int32, and how many there are.

    Raises `BadInput` for more distinct hashes than int32 can number.
    """
    with np.errstate(over="ignore"):  # for interpreted runs: there numpy speaks of a product that wraps
        ids, n_ids = _number_in_order(np.ascontiguousarray(hashes))
    if n_ids < 0:
        raise BadInput(
            f"more than {MOST_IDS} distinct blocks",
            where="a window of requests",
            fix="ask for a shorter span of time",
        )
    return ids, n_ids


@njit(cache=True)
def _number_in_order(hashes: UInt64Array) -> tuple[Int32Array, int]:
    """Number hashes; at most half of the table's slots, a power of two, hold a number.

    A chain that was new was numbered in a row. So when it comes again the block after number i is most
    often i + 1, and the table is asked only where chains begin, branch or are new: O(runs) look-ups.
    """
    slots = np.full(FIRST_SLOTS, -1, np.int32)
    known = np.empty(FIRST_SLOTS // 2, np.uint64)
    ids = np.empty(len(hashes), np.int32)
    n_ids = 0
    place = 0
    while place < len(hashes):
        value = hashes[place]
        slot = _slot_of(value, slots, known)
        if slots[slot] < 0:
            if n_ids == MOST_IDS:
                return ids, -1
            if n_ids == len(known):
                slots, known = _doubled(slots, known)
                slot = _slot_of(value, slots, known)
            slots[slot] = n_ids
            known[n_ids] = value
            n_ids += 1
        ids[place] = slots[slot]
        place = _follow(hashes, place, known, n_ids, ids)
    return ids, n_ids


@njit(cache=True)
def _follow(hashes: UInt64Array, place: int, known: UInt64Array, n_ids: int, ids: Int32Array) -> int:
    """Number the blocks after `place` that come as they did before; returns the first that does not."""
    number = ids[place] + 1
    place += 1
    while place < len(hashes) and number < n_ids and known[number] == hashes[place]:
        ids[place] = number
        number += 1
        place += 1
    return place


@njit(cache=True)
def _slot_of(value: np.uint64, slots: Int32Array, known: UInt64Array) -> int:
    """The slot that holds a hash's number, or the free one where it belongs: linear probing.

    The low bits of a hash are as good as random, but hashes that are small counters are not, so they
    are folded and multiplied by 2^64 / golden ratio (Fibonacci hashing: Knuth, TAOCP vol. 3, 6.4).
    """
    mask = len(slots) - 1
    mixed = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    slot = int(mixed >> np.uint64(32)) & mask
    while slots[slot] >= 0 and known[slots[slot]] != value:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _doubled(slots: Int32Array, known: UInt64Array) -> tuple[Int32Array, UInt64Array]:
    """The same full table with room for twice as many."""
    larger = np.full(2 * len(slots), -1, np.int32)
    room = np.empty(2 * len(known), np.uint64)
    room[: len(known)] = known
    for number in range(len(known)):
        larger[_slot_of(known[number], larger, room)] = number
    return larger, room
