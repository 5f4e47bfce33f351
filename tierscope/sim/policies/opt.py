"""Bélády's rule on leaves: drop what is needed latest, and keep out what is needed later than all of it.

It knows the future, so no policy hits more: a bound, not a choice. A block is never needed before its parent,
so what is needed latest is a leaf, and dropping leaves alone costs nothing.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array
from tierscope.sim.policies.leaves import drop_below, insert, no_leaves, no_offers, offer
from tierscope.traces.paths import Paths


@njit(cache=True)
def leading_hits(paths: Paths, capacity_blocks: int) -> Int32Array:
    """Leading blocks of each request that the cache holds when it comes: (n,) int32."""
    n = len(paths.offsets) - 1
    hits = np.zeros(n, np.int32)
    next_use = _next_use(paths)
    leaves = no_leaves(paths)
    heap = no_offers()
    resident = 0
    for request in range(n):
        start, end = paths.offsets[request], paths.offsets[request + 1]
        k = start
        while k < end and leaves.present[paths.ids[k]]:
            block = paths.ids[k]
            leaves.key[block] = -next_use[k]
            leaves.needed[block] = request
            offer(leaves, heap, block)
            k += 1
        hits[request] = k - start
        while k < end:
            block = paths.ids[k]
            if resident >= capacity_blocks:
                if not drop_below(leaves, heap, -next_use[k], request):
                    break
                resident -= 1
            leaves.key[block] = -next_use[k]
            leaves.needed[block] = request
            insert(leaves, block)
            offer(leaves, heap, block)
            resident += 1
            k += 1
    return hits


@njit(cache=True)
def _next_use(paths: Paths) -> Int32Array:
    """The next request with each accessed block, n where there is none: (accesses,) int32."""
    n = len(paths.offsets) - 1
    following = np.full(paths.n_ids, n, np.int32)
    next_use = np.empty(len(paths.ids), np.int32)
    for request in range(n - 1, -1, -1):
        for k in range(paths.offsets[request], paths.offsets[request + 1]):
            next_use[k] = following[paths.ids[k]]
            following[paths.ids[k]] = request
    return next_use
