"""What routers fall back to: the replica that was asked least of late. It counts arrivals, not work.

A replica without any request yet comes first; else the first one with the fewest in the last minute. What
takes long to serve weighs as little as what does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array, Int64Array

WINDOW_MS = 60_000


class Asked(NamedTuple):
    """Requests by replica, `ever` and `lately` (replicas,), and the log behind `lately` from `log_start[0]`.

    The log has room for every request of a trace: `log_ms` and `log_replica` (n,), `log_end` (1,).
    """

    ever: Int64Array
    lately: Int64Array
    log_ms: Int64Array
    log_replica: Int32Array
    log_start: Int64Array
    log_end: Int64Array


@njit(cache=True)
def nothing_asked(replicas: int, requests: int) -> Asked:
    """Counters before the first request."""
    return Asked(
        np.zeros(replicas, np.int64),
        np.zeros(replicas, np.int64),
        np.zeros(requests, np.int64),
        np.zeros(requests, np.int32),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )


@njit(cache=True)
def least_asked(asked: Asked, at_ms: int) -> int:
    """The replica to fall back to now."""
    while asked.log_start[0] < asked.log_end[0] and asked.log_ms[asked.log_start[0]] <= at_ms - WINDOW_MS:
        asked.lately[asked.log_replica[asked.log_start[0]]] -= 1
        asked.log_start[0] += 1
    best = 0
    for replica in range(len(asked.ever)):
        if asked.ever[replica] == 0:
            return replica
        if asked.lately[replica] < asked.lately[best]:
            best = replica
    return best


@njit(cache=True)
def count(asked: Asked, replica: int, at_ms: int) -> None:
    """A request was sent to a replica, whoever chose it."""
    asked.ever[replica] += 1
    asked.lately[replica] += 1
    asked.log_ms[asked.log_end[0]] = at_ms
    asked.log_replica[asked.log_end[0]] = replica
    asked.log_end[0] += 1
