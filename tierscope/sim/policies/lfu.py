"""Least frequently used leaf first, the one untouched longest where several were used as often.

What was dropped is forgotten: it comes back with a count of one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array
from tierscope.sim.policies.leaves import Heap, Leaves, drop_below, insert, no_leaves, no_offers, offer
from tierscope.traces.paths import Paths

USE = 1 << 32
"""One use; a key is uses, and below them the request of the last one."""
NO_LIMIT = 1 << 62


@njit(cache=True)
def leading_hits(paths: Paths, capacity_blocks: int) -> Int32Array:
    """Leading blocks of each request that the cache holds when it comes: (n,) int32."""
    n = len(paths.offsets) - 1
    hits = np.zeros(n, np.int32)
    leaves = no_leaves(paths)
    heap = no_offers()
    resident = 0
    for request in range(n):
        path = paths.ids[paths.offsets[request] : paths.offsets[request + 1]]
        while hits[request] < len(path) and leaves.present[path[hits[request]]]:
            hits[request] += 1
        _use(leaves, heap, path[: hits[request]], request)
        for block in path[hits[request] :]:
            if resident >= capacity_blocks:
                if not drop_below(leaves, heap, NO_LIMIT, request):
                    break
                resident -= 1
            leaves.key[block] = USE + request
            leaves.needed[block] = request
            insert(leaves, block)
            offer(leaves, heap, block)
            resident += 1
    return hits


@njit(cache=True)
def _use(leaves: Leaves, heap: Heap, path: Int32Array, request: int) -> None:
    """Count one use of the resident blocks of a path."""
    for block in path:
        leaves.key[block] = (leaves.key[block] // USE + 1) * USE + request
        leaves.needed[block] = request
        offer(leaves, heap, block)
