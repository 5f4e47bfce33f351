"""S3-FIFO (Yang et al., SOSP'23): new blocks prove themselves in a small queue before they enter the main.

A tenth of the room is the small queue. What leaves it unused leaves a ghost; what comes back while its ghost
is remembered enters the main queue, as does what was used twice. A main block that was used goes round again.
The order of it all is libCacheSim's, whose authors are the policy's: the small queue gives way first unless
the main one is over its share, and until something has to go, what the small one has no room for enters the
main. Paths are stored leaf first, so that a prefix outlives its continuations.
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
NOT_LINKED = -1


class Queues(NamedTuple):
    """Two rings, the ghosts, and where each block is; `ends` holds head and length of small and main.

    `where` and `uses` are (n_ids,). `newer` and `older` (n_ids + 1,) link the ghosts, the last entry being
    both ends; NOT_LINKED where a block has none. `counts`: ghosts, and blocks ever evicted.
    """

    where: NDArray[np.int8]
    uses: NDArray[np.int8]
    small: Int32Array
    main: Int32Array
    ends: Int64Array
    newer: Int32Array
    older: Int32Array
    counts: Int64Array


class Room(NamedTuple):
    """Blocks that the small and the main queue have room for, and ghosts that are remembered."""

    small: int
    main: int
    ghosts: int


@njit(cache=True)
def leading_hits(paths: Paths, capacity_blocks: int) -> Int32Array:
    """Leading blocks of each request that the cache holds when it comes: (n,) int32."""
    n = len(paths.offsets) - 1
    hits = np.zeros(n, np.int32)
    if capacity_blocks < 1:
        return hits
    queues = _empty(paths.n_ids)
    small = max(capacity_blocks // 10, 1)
    room = Room(small, capacity_blocks - small, capacity_blocks * 9 // 10)
    for request in range(n):
        path = paths.ids[paths.offsets[request] : paths.offsets[request + 1]]
        while hits[request] < len(path) and queues.where[path[hits[request]]] != ABSENT:
            hits[request] += 1
        for block in path[::-1]:
            if queues.where[block] != ABSENT:
                queues.uses[block] = min(queues.uses[block] + 1, MOST_USES)
            else:
                _store(queues, room, block)
    return hits


@njit(cache=True)
def _empty(n_ids: int) -> Queues:
    ring = max(n_ids, 1)
    newer = np.full(n_ids + 1, NOT_LINKED, np.int32)
    newer[n_ids] = n_ids
    return Queues(
        np.zeros(n_ids, np.int8),
        np.zeros(n_ids, np.int8),
        np.zeros(ring, np.int32),
        np.zeros(ring, np.int32),
        np.zeros(4, np.int64),
        newer,
        newer.copy(),
        np.zeros(2, np.int64),
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
def _store(queues: Queues, room: Room, block: int) -> None:
    """Make room and take in a block: into the main queue if its ghost is remembered, which then goes."""
    known = queues.newer[block] != NOT_LINKED
    if known:
        _forget(queues, block)
    while queues.ends[1] + queues.ends[3] >= room.small + room.main:
        if queues.ends[3] > room.main or queues.ends[1] == 0:
            _evict_main(queues)
        else:
            _evict_small(queues, room)
    queues.uses[block] = 0
    filling = queues.counts[1] == 0 and queues.ends[1] >= room.small
    if known or filling:
        queues.where[block] = MAIN
        _push(queues.main, queues.ends, 1, block)
    else:
        queues.where[block] = SMALL
        _push(queues.small, queues.ends, 0, block)


@njit(cache=True)
def _evict_small(queues: Queues, room: Room) -> None:
    """Move what was used twice to the main queue, until something was not and leaves a ghost."""
    while queues.ends[1]:
        block = _pop(queues.small, queues.ends, 0)
        if queues.uses[block] > 1:
            queues.uses[block] = 0
            queues.where[block] = MAIN
            _push(queues.main, queues.ends, 1, block)
        else:
            queues.where[block] = ABSENT
            queues.counts[1] += 1
            _remember(queues, room, block)
            return


@njit(cache=True)
def _evict_main(queues: Queues) -> None:
    """Send round what was used, until something was not."""
    while True:
        block = _pop(queues.main, queues.ends, 1)
        if queues.uses[block] == 0:
            queues.where[block] = ABSENT
            queues.counts[1] += 1
            return
        queues.uses[block] -= 1
        _push(queues.main, queues.ends, 1, block)


@njit(cache=True)
def _remember(queues: Queues, room: Room, block: int) -> None:
    """Leave a ghost; the oldest one goes when there are too many."""
    end = len(queues.newer) - 1
    newest = queues.older[end]
    queues.newer[newest] = block
    queues.older[block] = newest
    queues.newer[block] = end
    queues.older[end] = block
    queues.counts[0] += 1
    if queues.counts[0] > room.ghosts:
        _forget(queues, queues.newer[end])


@njit(cache=True)
def _forget(queues: Queues, block: int) -> None:
    queues.newer[queues.older[block]] = queues.newer[block]
    queues.older[queues.newer[block]] = queues.older[block]
    queues.newer[block] = queues.older[block] = NOT_LINKED
    queues.counts[0] -= 1
