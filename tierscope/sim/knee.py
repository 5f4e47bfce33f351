"""The load at which waiting begins to grow: below it a time to first token is a figure, above it a queue."""

from __future__ import annotations

import math

import numpy as np

from tierscope.domain.trace import Trace
from tierscope.sim.serving import Fleet, faster, serve

UNLOADED = 1 / 64
"""How much slower than recorded requests come to an engine that is as good as idle."""
IDLE = 1 / 4096
"""The same once more: what is far overloaded queues at `UNLOADED` still, and that wait never doubles."""
DOUBLED = 2.0
"""At the knee the mean time to first token is this many times the unloaded one."""
LEAST, MOST = 1 / 16, 16.0
"""Speeds between which the knee is looked for."""
HALVINGS = 6
"""The knee is then known to 9 %."""


def requests_per_second(trace: Trace) -> float | None:
    """Mean rate of arrival; None where all come at once."""
    seconds = float(trace.at_ms[-1] - trace.at_ms[0]) / 1000 if trace.requests else 0.0
    return trace.requests / seconds if seconds > 0 else None


def mean_ttft_seconds(trace: Trace, fleet: Fleet) -> float:
    """Mean time to first token of the requests that were not refused; infinite where all were."""
    ttft = serve(trace, fleet).ttft_seconds
    served = ttft[~np.isnan(ttft)]
    return float(served.mean()) if len(served) else math.inf


def knee_speed(trace: Trace, fleet: Fleet) -> float | None:
    """How many times as fast requests may come before the mean TTFT has doubled.

    0.0 where it has at a sixteenth of the recorded speed: a fleet that is far overloaded. None where it has
    not at sixteen times of it, or no speed is another: all requests come at once.
    """
    if requests_per_second(trace) is None:
        return None
    unloaded = mean_ttft_seconds(faster(trace, UNLOADED), fleet)
    limit = DOUBLED * unloaded
    if not _below(trace, fleet, LEAST, limit):
        return 0.0
    if unloaded > DOUBLED * mean_ttft_seconds(faster(trace, IDLE), fleet):
        return 0.0
    if _below(trace, fleet, MOST, limit):
        return None
    low, high = LEAST, MOST
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        if _below(trace, fleet, middle, limit):
            low = middle
        else:
            high = middle
    return low


def _below(trace: Trace, fleet: Fleet, speed: float, limit_seconds: float) -> bool:
    return mean_ttft_seconds(faster(trace, speed), fleet) <= limit_seconds
