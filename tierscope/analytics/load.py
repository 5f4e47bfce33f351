"""How many sessions take turns, and what a hit ratio becomes when there are more of them or fewer.

Between two requests of a session others ask. What they bring in lies above the session's blocks in an LRU
stack: the depth of reuse grows with the number of sessions in between, and hardly with anything else that
changes from hour to hour. So a hit ratio known for one load holds, at another, for a size in proportion.
"""

from __future__ import annotations

import numpy as np

from tierscope.analytics.depths import depth_histogram
from tierscope.domain.trace import FloatArray, Int32Array, Int64Array
from tierscope.traces.paths import Paths


def sessions_taking_turns(session: Int32Array, first: int, last: int, slices: int) -> FloatArray | None:
    """Sessions that take turns in each slice of the requests `first` to `last` - 1: (slices,), 1 or more.

    That is one more than the distinct other sessions that asked between two requests of one, on average; a
    slice in which no session came back counts as the whole. `session` (n,) is -1 where unknown; None where
    no request of a known session came back.
    """
    known = session >= 0
    _, ids = np.unique(session[known], return_inverse=True)
    before = np.concatenate(([0], np.cumsum(known)))
    paths = Paths(np.arange(len(ids) + 1, dtype=np.int64), ids.astype(np.int32), int(ids.max(initial=-1)) + 1)
    edges = before[np.linspace(first, last, slices + 1).astype(np.int64)]
    returned = np.array([_returns(paths, int(edge)) for edge in edges])
    inside = returned[:-1] - returned[1:]
    everything = inside.sum(axis=0)
    if not everything[0]:
        return None
    inside = np.where(inside[:, :1] > 0, inside, everything)
    turns: FloatArray = 1.0 + inside[:, 1] / inside[:, 0]
    return turns


def _returns(paths: Paths, first: int) -> tuple[int, int]:
    """Requests of known sessions from the `first` on that came back, and the others in between, summed."""
    histogram, _ = depth_histogram(paths, 1, np.ones(paths.requests, dtype=np.int64), first)
    return int(histogram.sum()), int(histogram @ np.arange(len(histogram)))


def at_other_load(
    capacities: Int64Array, values: FloatArray, ratios: FloatArray, weights: FloatArray
) -> FloatArray:
    """Values (k,) of k rising capacities, as they would be with `ratios` (m,) times as many sessions.

    Each of the m loads counts by its weight (m,). Between two capacities values go with the logarithm;
    beyond the first and the last they stay.
    """
    sizes = np.log(capacities)
    shifted = np.array([np.interp(sizes - np.log(ratio), sizes, values) for ratio in ratios])
    mean: FloatArray = weights @ shifted / weights.sum()
    return mean
