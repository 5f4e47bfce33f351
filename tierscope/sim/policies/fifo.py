"""First in, first out: blocks leave in the order they came, root first, whoever needs them."""

from __future__ import annotations

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array
from tierscope.traces.paths import Paths


@njit(cache=True)
def leading_hits(paths: Paths, capacity_blocks: int) -> Int32Array:
    """Leading blocks of each request that the cache holds when it comes: (n,) int32."""
    n = len(paths.offsets) - 1
    hits = np.zeros(n, np.int32)
    if capacity_blocks < 1:
        return hits
    present = np.zeros(paths.n_ids, np.bool_)
    ring = np.full(min(capacity_blocks, max(paths.n_ids, 1)), -1, np.int32)
    at = 0
    for request in range(n):
        path = paths.ids[paths.offsets[request] : paths.offsets[request + 1]]
        while hits[request] < len(path) and present[path[hits[request]]]:
            hits[request] += 1
        for block in path:
            if present[block]:
                continue
            if ring[at] >= 0:
                present[ring[at]] = False
            ring[at] = block
            present[block] = True
            at = (at + 1) % len(ring)
    return hits
