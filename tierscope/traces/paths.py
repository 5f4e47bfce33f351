"""Requests as the paths of ids they are, and where two paths part: what every kernel works on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array, Int64Array


class Paths(NamedTuple):
    """n requests in order, request i's path being `ids[offsets[i]:offsets[i + 1]]`, root first.

    Ids lie below `n_ids`, and one id always has the same parent. Shapes: `offsets` (n + 1,) int64, `ids`
    (accesses,) int32.
    """

    offsets: Int64Array
    ids: Int32Array
    n_ids: int

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64Array:
        """Units of each path: (n,)."""
        return np.diff(self.offsets)


@njit(cache=True)
def run_end(paths: Paths, request: int, place: int, owner: int) -> int:
    """First place at or after `place`, where two paths agree, at which they differ or one of them ends.

    Agreement is monotone along a path: gallop ahead, then halve.
    """
    mine, theirs = paths.offsets[request], paths.offsets[owner]
    most = min(paths.offsets[request + 1] - mine, paths.offsets[owner + 1] - theirs)
    agree = place
    step = 1
    while agree + step < most and paths.ids[mine + agree + step] == paths.ids[theirs + agree + step]:
        agree += step
        step *= 2
    differ = min(agree + step, most)
    while agree + 1 < differ:
        middle = (agree + differ) // 2
        if paths.ids[mine + middle] == paths.ids[theirs + middle]:
            agree = middle
        else:
            differ = middle
    return agree + 1
