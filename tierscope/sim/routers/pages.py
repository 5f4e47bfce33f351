"""What a gateway is told of engines: their pages as it read them last, and the blocks they store.

An engine tells both when a step has ended. So a gateway sees neither what it sent since, nor what is admitted
to a step under way: all that comes during a long one finds the same replica the least busy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.sim.engine import path_of
from tierscope.sim.jobs import World
from tierscope.sim.memory import leading

REFRESH_SECONDS = 0.05
"""How often a gateway reads every page: the least it can be set to, and the default."""


class Pages(NamedTuple):
    """As last read: requests that wait and blocks in use, (replicas,) each; `reading` (1,) is its number."""

    waiting: Int64Array
    busy: Int64Array
    reading: Int64Array


def unread(replicas: int) -> Pages:
    """Pages of engines that have nothing to do."""
    return Pages(np.zeros(replicas, np.int64), np.zeros(replicas, np.int64), np.zeros(1, np.int64))


@njit(cache=True)
def reading_at(at_seconds: float) -> int:
    """The number of the last reading before a moment."""
    return int(at_seconds / REFRESH_SECONDS)


@njit(cache=True)
def read(pages: Pages, world: World, reading: int) -> None:
    """Read every page at the time of a reading; engines must have come so far, and no further."""
    pages.reading[0] = reading
    for replica in range(len(world.engines)):
        engine = world.engines[replica]
        written = engine.clock <= reading * REFRESH_SECONDS
        pages.waiting[replica] = engine.next_waiting if written else engine.shown_waiting
        pages.busy[replica] = engine.next_busy if written else engine.shown_busy


@njit(cache=True)
def stored_blocks(world: World, replica: int, path: Int32Array, at_seconds: float) -> int:
    """Leading blocks of a path that an engine has told to have stored.

    What a request of the step under way has to compute is not told yet: of what it shares, only what it hit.
    One whose answer is a single token, and so ends with the step, is not thought of.
    """
    known = leading(world.memory, replica, path, len(path))
    engine = world.engines[replica]
    if engine.clock <= at_seconds:
        return known
    for place in range(engine.running - 1, -1, -1):
        job = world.jobs[world.running[replica, place]]
        if job.admitted_seconds != engine.began:
            break
        theirs = path_of(world.paths, world.running[replica, place])
        shared = 0
        while shared < min(known, job.named) and theirs[shared] == path[shared]:
            shared += 1
        if shared > job.l0:
            known = job.l0
    return known
