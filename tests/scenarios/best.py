"""The best size of each tier, found by trying every one that holds the longest prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests import naive
from tests import workloads as w
from tests.scenarios.serving import Fleet, serve


def best_sizes(
    fleet: Fleet, l0_blocks: int, limits: Mapping[str, int | None], target: float
) -> dict[str, int]:
    """Fewest chunks of L1, then of L2 below it, that serve `target` of what no limit would: later half alone.

    `limits` has the most that each tier of the deployment may have, None where there is no such limit.
    """
    later = slice(len(fleet.chains) // 2, None)
    least = max(map(len, fleet.chunks()), default=1)
    served = serve(fleet, {"l0": l0_blocks}).total
    found = {}
    for tier, limit in limits.items():
        holder = fleet.engine if tier == "l1" else np.zeros_like(fleet.engine)
        needed = chunks_needed(fleet.chunks(), holder)
        most = int(needed[needed < np.iinfo(np.int64).max].max(initial=1))
        hits = [
            np.maximum(served, (needed <= chunks).sum(axis=1) * w.CHUNK_TOKENS)
            for chunks in range(max(most, least) + 1)
        ]
        sums = np.array([one[later].sum() for one in hits])
        enough = max(int(np.argmax(sums >= target * sums[-1])), least)
        found[tier] = enough if limit is None else min(enough, limit)
        served = hits[found[tier]]
    return found


def chunks_needed(paths: Sequence[Sequence[int]], holder: np.ndarray) -> np.ndarray:
    """How large a cache must be to serve each path to each of its chunks: (n, longest); most: none does."""
    never = np.iinfo(np.int64).max
    needed = np.full((len(paths), max(map(len, paths))), never)
    for one in np.unique(holder):
        mine = np.flatnonzero(holder == one)
        for request, depths in zip(mine, naive.request_depths([paths[i] for i in mine]), strict=True):
            largest = 0
            for place, depth in enumerate(depths):
                if depth is None:
                    break
                largest = max(largest, depth + 1)
                needed[request, place] = largest
    return needed
