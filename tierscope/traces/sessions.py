"""Traces whose times are relative to their session: overlay starts, so that sessions run side by side."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace
from tierscope.traces.rows import select

MS_PER_HOUR = 3_600_000


def spread_sessions(trace: Trace, *, hours: float, seed: int) -> Trace:
    """Start every session somewhere in `hours`, and order the requests by time.

    Starts are drawn uniformly with `numpy.random.default_rng(seed)`, one a session in ascending order of
    session id, cut to whole milliseconds and added; requests of equal time keep their order. The
    starts are a choice of ours, not of the trace: say so where results are shown.
    Raises `BadInput` for a trace without sessions, and for hours that are none.
    """
    if not 0 <= hours < math.inf:
        raise BadInput(
            f"sessions cannot start within {hours} hours",
            where="--spread-sessions",
            fix="say 0 or more hours",
        )
    sessions, index = np.unique(trace.session, return_inverse=True)
    if trace.requests == 0 or sessions[0] < 0:
        raise BadInput(
            "requests without a session cannot be spread",
            where=trace.name,
            fix="leave --spread-sessions out; the trace's times are used as they are",
        )
    starts_ms = np.random.default_rng(seed).uniform(0, hours * MS_PER_HOUR, len(sessions)).astype(np.int64)
    spread = replace(trace, at_ms=trace.at_ms + starts_ms[index], session_relative_times=False)
    return select(spread, np.argsort(spread.at_ms, kind="stable"))
