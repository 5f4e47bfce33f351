"""S3-FIFO (Yang et al., SOSP'23): new blocks prove themselves in a small queue before they enter the main.

A tenth of the room is the small queue. What leaves it unused leaves a ghost; what comes back while its ghost
is remembered enters the main queue, as does what was used twice. A main block that was used goes round again.
Paths are stored leaf first, so that a prefix outlives its continuations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.traces.paths import Paths

MOST_USES = 3
ABSENT, SMALL, MAIN = 0, 1, 2


class Queues(NamedTuple):
    """Three rings and where each block is; `ends` holds head and length of the small, main and ghost ring.

    `where`, `uses` and `ghost` are (n_ids,); `ghost` is 1 for a block whose ghost is remembered.
    """

    where: NDArray[np.int8]
    uses: NDArray[np.int8]
    ghost: NDArray[np.int8]
    small: Int32Array
    main: Int32Array
    ghosts: Int32Array
    ends: Int64Array


@njit(cache=True)
def leading_hits(paths: Paths, capacity_blocks: int) -> Int32Array:
    """Leading blocks of each request that the cache holds when it comes: (n,) int32."""
    n = len(paths.offsets) - 1
    hits = np.zeros(n, np.int32)
    if capacity_blocks < 1:
        return hits
    queues = _empty(paths.n_ids, capacity_blocks)
    small_blocks = max(capacity_blocks // 10, 1)
    for request in range(n):
        path = paths.ids[paths.offsets[request] : paths.offsets[request + 1]]
        while hits[request] < len(path) and queues.where[path[hits[request]]] != ABSENT:
            hits[request] += 1
        for block in path[::-1]:
            if queues.where[block] != ABSENT:
                queues.uses[block] = min(queues.uses[block] + 1, MOST_USES)
                continue
            while queues.ends[1] + queues.ends[3] >= capacity_blocks:
                _make_room(queues, small_blocks)
            _store(queues, block)
    return hits


@njit(cache=True)
def _empty(n_ids: int, capacity_blocks: int) -> Queues:
    ring = max(n_ids, 1)
    return Queues(
        np.zeros(n_ids, np.int8),
        np.zeros(n_ids, np.int8),
        np.zeros(n_ids, np.int8),
        np.zeros(ring, np.int32),
        np.zeros(ring, np.int32),
        np.zeros(max(capacity_blocks - max(capacity_blocks // 10, 1), 1), np.int32),
        np.zeros(6, np.int64),
    )


@njit(cache=True)
def _push(ring: Int32Array, ends: Int64Array, which: int, block: int) -> None:
    ring[(ends[2 * which] + ends[2 * which + 1]) % len(ring)] = block
    ends[2 * which + 1] += 1


@njit(cache=True)
def _pop(ring: Int32Array, ends: Int64Array, which: int) -> int:
    block = ring[ends[2 * which]]
    ends[2 * which] = (ends[2 * which] + 1) % len(ring)
    ends[2 * which + 1] -= 1
    return int(block)


@njit(cache=True)
def _store(queues: Queues, block: int) -> None:
    queues.uses[block] = 0
    if queues.ghost[block]:
        queues.where[block] = MAIN
        _push(queues.main, queues.ends, 1, block)
    else:
        queues.where[block] = SMALL
        _push(queues.small, queues.ends, 0, block)


@njit(cache=True)
def _make_room(queues: Queues, small_blocks: int) -> None:
    """Drop one block, or move one from the small queue to the main one."""
    if queues.ends[1] > small_blocks or queues.ends[3] == 0:
        block = _pop(queues.small, queues.ends, 0)
        if queues.uses[block] > 1:
            queues.uses[block] = 0
            queues.where[block] = MAIN
            _push(queues.main, queues.ends, 1, block)
        else:
            queues.where[block] = ABSENT
            _remember(queues, block)
        return
    while True:
        block = _pop(queues.main, queues.ends, 1)
        if queues.uses[block] == 0:
            queues.where[block] = ABSENT
            return
        queues.uses[block] -= 1
        _push(queues.main, queues.ends, 1, block)


@njit(cache=True)
def _remember(queues: Queues, block: int) -> None:
    """Leave a ghost; the oldest one goes when there are as many as the main queue has room for."""
    if queues.ghost[block]:
        return
    if queues.ends[5] == len(queues.ghosts):
        queues.ghost[_pop(queues.ghosts, queues.ends, 2)] = 0
    queues.ghost[block] = 1
    _push(queues.ghosts, queues.ends, 2, block)
