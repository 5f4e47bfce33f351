"""Block chains as arrays, and how 64-bit block hashes become the small numbers kernels work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace, UInt64Array


@dataclass(frozen=True, slots=True)
class Chains:
    """n requests in order, each a path of blocks from a root of a prefix forest.

    Request i is `ids[offsets[i]:offsets[i + 1]]`; one id always has the same parent, so two paths that
    agree at a place agree everywhere before it. Shapes: `offsets` (n + 1,) int64, `ids` (accesses,)
    int32 from 0 to n_ids - 1.
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
    slots = 1 << max(4, (2 * len(hashes)).bit_length())
    ids, n_ids = _number_in_order(np.ascontiguousarray(hashes), slots)
    if n_ids < 0:
        raise BadInput(
            f"more than {np.iinfo(np.int32).max} distinct blocks",
            where="a window of requests",
            fix="ask for a shorter span of time",
        )
    return ids, n_ids


@njit(cache=True)
def _number_in_order(hashes: UInt64Array, slots: int) -> tuple[Int32Array, int]:
    """Look each hash up in an open-addressed table of `slots` (a power of two, at least twice as many).

    The low bits of a hash are as good as random, but hashes that are small counters are not, so they
    are multiplied by 2^64 / golden ratio first (Fibonacci hashing: Knuth, TAOCP vol. 3, 6.4).
    """
    shift = np.uint64(64)
    size = slots
    while size > 1:
        shift -= np.uint64(1)
        size >>= 1
    mask = slots - 1
    keys = np.empty(slots, np.uint64)
    numbers = np.full(slots, -1, np.int32)
    ids = np.empty(len(hashes), np.int32)
    n_ids = 0
    for i in range(len(hashes)):
        slot = np.int64((hashes[i] * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while numbers[slot] >= 0 and keys[slot] != hashes[i]:
            slot = (slot + 1) & mask
        if numbers[slot] < 0:
            if n_ids == 2147483647:
                return ids, -1
            keys[slot] = hashes[i]
            numbers[slot] = n_ids
            n_ids += 1
        ids[i] = numbers[slot]
    return ids, n_ids
