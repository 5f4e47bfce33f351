"""Block ids of a trace: numbered densely, and checked to be a prefix forest."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int32Array, Int64Array


def dense(ids: Int32Array | Int64Array) -> tuple[Int32Array, int]:
    """Number the distinct ids 0, 1, 2, … by ascending id: (accesses,) int32, and how many there are."""
    most = int(ids.max(initial=-1))
    if int(ids.min(initial=0)) < 0 or most >= 4 * len(ids):
        distinct, numbered = np.unique(ids, return_inverse=True)
        return numbered.astype(np.int32), len(distinct)
    present = _present(ids, most + 1)
    numbers = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return _numbered(ids, numbers), int(np.count_nonzero(present))


@njit(cache=True)
def _present(ids: Int32Array | Int64Array, bound: int) -> NDArray[np.bool_]:
    present = np.zeros(bound, np.bool_)
    for k in range(len(ids)):
        present[ids[k]] = True
    return present


@njit(cache=True)
def _numbered(ids: Int32Array | Int64Array, numbers: Int32Array) -> Int32Array:
    numbered = np.empty(len(ids), np.int32)
    for k in range(len(ids)):
        numbered[k] = numbers[ids[k]]
    return numbered


@njit(cache=True)
def other_parents(
    offsets: Int64Array, ids: Int32Array, n_ids: int, left_out: NDArray[np.bool_]
) -> Int64Array:
    """Find where a request reaches a block from another block than the first request with it did.

    Returns the place of the first such block in `ids` for each request, -1 where there is none: (n,).
    Requests that are `left_out`, or that are found here, say nothing about their blocks' parents.
    """
    root, unknown = -1, -2
    parents = np.full(n_ids, unknown, np.int32)
    places = np.full(len(offsets) - 1, -1, np.int64)
    for request in range(len(offsets) - 1):
        if left_out[request]:
            continue
        start, end = offsets[request], offsets[request + 1]
        first_new = end
        for k in range(start, end):
            before = ids[k - 1] if k > start else root
            if parents[ids[k]] == unknown:
                # Once a block is new, what follows it is new too, or is found below.
                first_new = min(first_new, k)
                parents[ids[k]] = before
            elif parents[ids[k]] != before:
                places[request] = k
                for j in range(first_new, k):
                    parents[ids[j]] = unknown
                break
    return places
