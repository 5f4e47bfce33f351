"""Block ids of a trace: numbered densely, and checked to be a prefix forest."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int32Array, Int64Array

ROOT, UNKNOWN = -1, -2
"""Parents that are no block: of a path's first block, and of one that was not met yet."""


def dense(ids: Int32Array | Int64Array) -> tuple[Int32Array, int]:
    """Number the distinct ids 0, 1, 2, … by ascending id: (accesses,) int32, and how many there are."""
    most = int(ids.max(initial=-1))
    if int(ids.min(initial=0)) < 0 or most >= 4 * len(ids):
        distinct, numbered = np.unique(ids, return_inverse=True)
        return numbered.astype(np.int32), len(distinct)
    present = np.zeros(most + 1, np.bool_)
    present[ids] = True
    numbers = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return numbers[ids], int(np.count_nonzero(present))


def other_parents(
    offsets: Int64Array, ids: Int32Array, n_ids: int, left_out: NDArray[np.bool_]
) -> Int64Array:
    """Find where a request reaches a block from another block than the first request with it did.

    Returns the place of the first such block in `ids` for each request, -1 where there is none: (n,).
    Requests that are `left_out`, or that are found here, say nothing about their blocks' parents.
    """
    places = np.full(len(offsets) - 1, -1, np.int64)
    _compare_parents(offsets, ids, left_out, np.full(n_ids, UNKNOWN, np.int32), places)
    return places


@njit(cache=True)
def _compare_parents(
    offsets: Int64Array, ids: Int32Array, left_out: NDArray[np.bool_], parents: Int32Array, places: Int64Array
) -> None:
    """Fill `places`; `parents` (n_ids,) holds UNKNOWN and is scratch."""
    for request in range(len(offsets) - 1):
        if left_out[request]:
            continue
        start, end = offsets[request], offsets[request + 1]
        first_new = end
        for k in range(start, end):
            before = ids[k - 1] if k > start else ROOT
            if parents[ids[k]] == UNKNOWN:
                # Once a block is new, what follows it is new too, or is found below.
                first_new = min(first_new, k)
                parents[ids[k]] = before
            elif parents[ids[k]] != before:
                places[request] = k
                for j in range(first_new, k):
                    parents[ids[j]] = UNKNOWN
                break
