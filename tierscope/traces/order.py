"""The fewest rows to leave out so that time never runs backwards."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int64Array


def out_of_order(
    at_ms: Int64Array, session: Int64Array, order: Int64Array, left_out: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Mark the rows outside the longest run of times that never fall, session by session: (n,) bool.

    So one absurd time costs its own row and not all that follow. Where several choices are equally
    long the earlier rows stay. `order` sorts the rows by session and keeps their order within it;
    rows `left_out` already are passed over and marked too. O(n log n), O(n) where nothing is out of order.
    """
    kept = order[~left_out[order]]
    falls = (np.diff(at_ms[kept]) < 0) & (np.diff(session[kept]) == 0)
    if not falls.any():
        return left_out.copy()
    n = len(at_ms)
    marked = np.ones(n, np.bool_)
    _unmark_longest_runs(
        at_ms, session, order, left_out, marked, np.empty(n, np.int64), np.full(n, -1, np.int64)
    )
    return marked


@njit(cache=True)
def _unmark_longest_runs(
    at_ms: Int64Array,
    session: Int64Array,
    order: Int64Array,
    left_out: NDArray[np.bool_],
    marked: NDArray[np.bool_],
    heads: Int64Array,
    following: Int64Array,
) -> None:
    """Unmark the rows of each session's longest run; `marked` holds True, `following` -1.

    Method: patience sorting, from the last row to the first. `heads[k]` is the first row of a run of k + 1
    rows, the one with the latest time among such runs, so times along `heads` never rise.
    """
    n = len(at_ms)
    longest = 0
    for i in range(n - 1, -2, -1):
        row = order[i] if i >= 0 else -1
        if longest > 0 and (row < 0 or session[row] != session[heads[0]]):
            kept = heads[longest - 1]
            while kept >= 0:
                marked[kept] = False
                kept = following[kept]
            longest = 0
        if row < 0 or left_out[row]:
            continue
        low, high = 0, longest
        while low < high:
            middle = (low + high) // 2
            if at_ms[heads[middle]] >= at_ms[row]:
                low = middle + 1
            else:
                high = middle
        following[row] = heads[low - 1] if low > 0 else -1
        heads[low] = row
        longest = max(longest, low + 1)
