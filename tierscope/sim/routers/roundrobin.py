"""`roundrobin`: the replicas in turn, in the order of their names, whatever is asked."""

from __future__ import annotations

import numpy as np

from tierscope.domain.trace import Int32Array
from tierscope.sim.routers.arrivals import Arrivals


def place(arrivals: Arrivals, replicas: int, rng: np.random.Generator) -> Int32Array:  # noqa: ARG001
    """The replica of each request: (n,)."""
    return (np.arange(len(arrivals.at_ms)) % replicas).astype(np.int32)
