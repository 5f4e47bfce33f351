"""Sizes of all tiers at once: what each combination would serve, how soon, and for how much.

One pass over each tier's stream gives the depth of every request at every size; a combination is then only
the rule that puts three depths together, so thousands of them cost as much as their arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tierscope.advice.sizing.cost import cost_per_hour, tiers_cost, total_bytes
from tierscope.advice.sizing.engine import EngineStart
from tierscope.advice.sizing.latency import TtftModel, thinned
from tierscope.advice.study import Sizes, Study
from tierscope.domain.split import Split, split_tokens
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray, Int64Array

MOST_ROWS = 2_000
"""Requests that combinations are told apart by; whatever is advised is computed over all of them again."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One combination: bytes of one holder of L1 and L2, and what it comes to; None where that is not known.

    `sized_cost` is the part of an hour's cost that follows sizes, `held_bytes` are those of all holders.
    """

    start: EngineStart
    sizes: Sizes
    hit_ratio: float
    ttft_seconds: float | None
    cost: float | None
    sized_cost: float
    held_bytes: float


@dataclass(frozen=True, slots=True)
class Joint:
    """What combinations are computed from. `rows` (m,) index the window; `quantile` is the TTFT's.

    `ttft` is for splits of the rows, `scale` what observed TTFT is of modelled.
    """

    study: Study
    ttft: TtftModel | None
    scale: float
    rows: Int64Array
    quantile: float

    def evaluate(
        self, starts: Sequence[EngineStart], grids: Mapping[Tier, Sequence[float]]
    ) -> list[Candidate]:
        """Every combination of a start with a size of each tier: `grids` has sizes of one holder in bytes."""
        found = []
        for start in starts:
            study = start.of(self.study)
            depths = {tier: self._depths(study, tier, grid) for tier, grid in grids.items()}
            l0 = study.l0_tokens[self.rows]
            for places in product(*(range(len(grid)) for grid in grids.values())):
                at = dict(zip(grids, places, strict=True))
                sizes = {tier: grids[tier][place] for tier, place in at.items()}
                tokens = {tier: depths[tier][:, place] for tier, place in at.items()}
                found.append(self._candidate(start, sizes, l0, tokens))
        return found

    def _depths(self, study: Study, tier: Tier, grid: Sequence[float]) -> Int64Array:
        """Tokens of each row that one holder of each size would have had: (m, sizes)."""
        stream = study.stream(tier)
        most = max(int(stream.footprint_units().max(initial=0)), 1)
        units = np.array([min(study.units(tier, size), most) for size in grid], dtype=np.int64)
        distinct, place = np.unique(units, return_inverse=True)
        return stream.hit_tokens(distinct)[self.rows][:, place]

    def _ttft(self, split: Split) -> float | None:
        modelled = None if self.ttft is None else self.ttft.modelled(split, self.quantile)
        return None if modelled is None else self.scale * modelled

    def _candidate(
        self, start: EngineStart, sizes: Sizes, l0: Int64Array, tokens: Mapping[Tier, Int64Array]
    ) -> Candidate:
        nothing = np.zeros_like(l0)
        prompt = self.study.window.prompt[self.rows]
        split = split_tokens(prompt, l0, tokens.get(Tier.L1, nothing), tokens.get(Tier.L2, nothing))
        deployment = self.study.deployment
        cost = cost_per_hour(deployment, sizes)
        return Candidate(
            start=start,
            sizes=sizes,
            hit_ratio=float(1 - split.computed.sum() / max(int(prompt.sum()), 1)),
            ttft_seconds=self._ttft(split),
            cost=None if cost is None else cost.value,
            sized_cost=tiers_cost(deployment, sizes),
            held_bytes=total_bytes(deployment, sizes),
        )


def joint_of(study: Study, today: Split, ttft: TtftModel | str, quantile: float) -> Joint:
    """Prepare combinations; `today` (n,) is the modelled split at today's sizes."""
    if isinstance(ttft, TtftModel):
        model = ttft.thinned(MOST_ROWS)
        own = model.of_own_requests()
        now = Split(*(part[model.requests] for part in today))
        return Joint(study, own, own.scale(now, quantile), model.requests, quantile)
    rows = thinned(np.arange(study.history.first_measured, study.window.requests), MOST_ROWS)
    return Joint(study, None, 1.0, rows, quantile)


def size_grid(low: float, high: float, sizes: int, marks: Sequence[float] = ()) -> list[float]:
    """Ascending sizes in equal ratios from low to high, the marks that lie between them among them."""
    steps: FloatArray = np.geomspace(low, max(high, low), sizes)
    inside = [mark for mark in marks if low <= mark <= max(high, low)]
    return sorted({float(size) for size in (*steps, *inside)})
