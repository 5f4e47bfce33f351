"""`session`: every session stays with one replica, by consistent hashing; blind to load.

160 points a replica on a ring of MD5 values; a session belongs to the first point after its own. Which
replica that is depends on the replicas' addresses, so a simulated share is one draw of a real one. Requests
without a session go to whoever was asked least.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.sim.routers.arrivals import Arrivals
from tierscope.sim.routers.least_asked import count, least_asked, nothing_asked

POINTS = 160


def place(arrivals: Arrivals, replicas: int, rng: np.random.Generator) -> Int32Array:  # noqa: ARG001
    """The replica of each request: (n,)."""
    return _with_fallback(owners(arrivals.session, replicas), arrivals.at_ms, replicas)


def owners(session: Int32Array, replicas: int) -> Int32Array:
    """The replica that a ring gives each session, -1 where there is no session: (n,)."""
    known, index = np.unique(session, return_inverse=True)
    points = sorted(
        (_point(f"http://replica-{replica}:8000-{number}"), replica)
        for replica in range(replicas)
        for number in range(POINTS)
    )
    ring = np.array([point for point, _ in points], dtype=np.uint64)
    at = np.array([_point(f"session-{number}") for number in known.tolist()], dtype=np.uint64)
    following = np.searchsorted(ring, at, side="right") % len(ring)
    owner = np.array([replica for _, replica in points], dtype=np.int32)[following]
    owner[known < 0] = -1
    return owner[index].astype(np.int32)


def _point(text: str) -> int:
    """A place on the ring: the upper half of the MD5 value, which orders it all the same."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:8], "big")


@njit(cache=True)
def _with_fallback(owner: Int32Array, at_ms: Int64Array, replicas: int) -> Int32Array:
    asked = nothing_asked(replicas, len(owner))
    for request in range(len(owner)):
        if owner[request] < 0:
            owner[request] = least_asked(asked, at_ms[request])
        count(asked, owner[request], at_ms[request])
    return owner
