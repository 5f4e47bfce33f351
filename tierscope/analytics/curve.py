"""Hit ratio of an LRU tier at every size, exactly, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierscope.analytics.chains import Chains
from tierscope.analytics.depths import depth_histogram, hit_blocks, stack_runs
from tierscope.analytics.stems import stems_of
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import FloatArray, Int32Array, Int64Array
from tierscope.traces.paths import Paths


@dataclass(frozen=True, slots=True)
class HitRatioCurve:
    """Weight of the accesses that hit, for every capacity at once.

    `hit_weight[c]` is the weight (blocks or tokens) that hits in an LRU of c blocks, from c = 0 to
    the number of distinct blocks, beyond which nothing more hits: (unique_blocks + 1,) int64.
    `total_weight` is that of all counted accesses. Prefix rule: a block hits only if all before it do.
    """

    hit_weight: Int64Array
    total_weight: int

    @property
    def unique_blocks(self) -> int:
        """Distinct blocks of all requests, those that only warm included."""
        return len(self.hit_weight) - 1

    def at(self, capacities_blocks: Int64Array) -> FloatArray:
        """Hit ratio at each capacity in blocks (0 or more): (sizes,) float64; 0 where nothing was counted."""
        if np.any(capacities_blocks < 0):
            raise BadInput(
                f"a capacity of {int(np.min(capacities_blocks))} blocks",
                where="capacities_blocks",
                fix="give capacities of 0 blocks or more",
            )
        hits = self.hit_weight[np.minimum(capacities_blocks, len(self.hit_weight) - 1)]
        return hits / self.total_weight if self.total_weight else np.zeros(len(hits))

    @property
    def infinite_hit_ratio(self) -> float:
        """Hit ratio of a tier that never evicts."""
        return float(self.hit_weight[-1] / self.total_weight) if self.total_weight else 0.0


def hit_ratio_curve(
    chains: Chains,
    *,
    block_weight: int = 1,
    last_block_weights: Int64Array | None = None,
    first_counted: int = 0,
) -> HitRatioCurve:
    """Compute the hit ratio of an LRU tier for every capacity.

    Block-weighted by default. For tokens, `block_weight` is the block size and `last_block_weights`
    (n,) the tokens in each request's last, maybe partial, block. Requests before `first_counted` warm the
    tier and are not counted.
    """
    n = chains.requests
    last = np.full(n, block_weight, np.int64) if last_block_weights is None else last_block_weights
    if len(last) != n or not 0 <= first_counted <= n:
        raise BadInput(
            f"{len(last)} last-block weights and a first counted request of {first_counted} for {n} requests",
            where="hit_ratio_curve",
            fix="give one weight a request, and count from one of them",
        )
    histogram, unseen = depth_histogram(
        Paths(chains.offsets, chains.ids, chains.n_ids), block_weight, last, first_counted
    )
    hit_weight = np.zeros(len(histogram) + 1, np.int64)
    np.cumsum(histogram, out=hit_weight[1:])
    return HitRatioCurve(
        hit_weight=hit_weight,
        total_weight=int(hit_weight[-1] + unseen),
    )


def hit_blocks_per_request(chains: Chains, capacities_blocks: Int64Array) -> Int32Array:
    """Leading blocks of each request that hit in an LRU tier of each capacity: (n, sizes) int32."""
    capacities = np.ascontiguousarray(capacities_blocks, dtype=np.int64)
    everybody = np.arange(chains.requests, dtype=np.int64)
    runs = stack_runs(stems_of(chains.ids.astype(np.uint64), chains.offsets), everybody)
    return hit_blocks(runs, capacities)
