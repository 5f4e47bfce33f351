"""How far our own advice would have been off: the second half of a trace predicted from the first.

Caches stay warm across the cut. The cold start of the first half is left out: it says how a cache fills, not
what it hits. The interval is one for a new observation, not for a mean: it has to cover the luck of the half
that was seen and that of the half to come, so two resampled deviations are added up, each over slices of time
long enough to be about independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.analytics.bootstrap import HIGH, LOW, Interval, Slices, resampled_ratios, slice_sums
from tierscope.analytics.chains import Chains
from tierscope.analytics.curve import hit_blocks_per_request
from tierscope.analytics.drift import Shift, shift_of
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import FloatArray, Int64Array

WARM_SHARE = 0.3
"""Share of the first half that only fills the caches."""
SLICES = 20
LATE_SLICES = 5
RESAMPLES = 400
PERMUTATIONS = 999
DRIFT_P_VALUE = 0.01
SMALLEST_SHIFT = 0.03
"""A shift of fewer points of hit ratio is no drift, however certain it is."""
SMALLEST_VARIANCE = 1e-12
MOST_CORRELATION = 0.9
"""With more, twenty slices are hardly two independent ones, and the estimate of it is worth nothing."""
FEWEST_REQUESTS = 300
BATCH_SIZES = 16
"""Sizes replayed together; bounds memory to 128 bytes a request."""


class Drift(NamedTuple):
    """Whether the seen half drifts, by how much and how surely."""

    found: bool
    shift: Shift


@dataclass(frozen=True, slots=True)
class Holdout:
    """Hit ratios of k capacities: predicted with a 95 % interval, and observed."""

    capacities_blocks: Int64Array
    predicted: FloatArray
    interval: Interval
    observed: FloatArray
    drift: Drift

    @property
    def errors(self) -> FloatArray:
        """How far each prediction is off: (k,)."""
        errors: FloatArray = np.abs(self.predicted - self.observed)
        return errors

    @property
    def coverage(self) -> float:
        """Share of sizes whose interval holds what was observed."""
        inside = (self.interval.low <= self.observed) & (self.observed <= self.interval.high)
        return float(inside.mean())


def hold_out(chains: Chains, capacities_blocks: Int64Array, rng: np.random.Generator) -> Holdout:
    """Predict the second half's hit ratio at each capacity; a trace that is too short raises `BadInput`."""
    n = chains.requests
    if n < FEWEST_REQUESTS:
        raise BadInput(
            f"{n} requests are too few to predict one half from the other",
            where="hold_out",
            fix=f"give a trace of at least {FEWEST_REQUESTS} requests",
        )
    seen, coming = _halves(chains, capacities_blocks)
    predicted, observed = seen.ratio, coming.ratio
    return Holdout(
        capacities_blocks=capacities_blocks,
        predicted=predicted,
        interval=_interval(seen, rng),
        observed=observed,
        drift=drift_of(seen, rng),
    )


def drift_of(slices: Slices, rng: np.random.Generator) -> Drift:
    """Whether slices in time order come from one workload."""
    shift = shift_of(slices, LATE_SLICES, PERMUTATIONS, rng)
    return Drift(shift.p_value <= DRIFT_P_VALUE and abs(shift.ratio) >= SMALLEST_SHIFT, shift)


def _halves(chains: Chains, capacities_blocks: Int64Array) -> tuple[Slices, Slices]:
    """Sums over slices of the warm part of the first half, and of the second half."""
    half = chains.requests // 2
    warm = int(half * WARM_SHARE)
    asked = np.diff(chains.offsets)
    parts = []
    for first in range(0, len(capacities_blocks), BATCH_SIZES):
        hits = hit_blocks_per_request(chains, capacities_blocks[first : first + BATCH_SIZES]).astype(np.int64)
        parts.append(
            (
                slice_sums(hits[warm:half], asked[warm:half], SLICES),
                slice_sums(hits[half:], asked[half:], SLICES),
            )
        )
    seen, coming = (
        Slices(np.concatenate([part[side].hits for part in parts], axis=1), parts[0][side].total)
        for side in (0, 1)
    )
    return seen, coming


def _interval(seen: Slices, rng: np.random.Generator) -> Interval:
    """Where the coming half's ratio lies 95 times of 100, if it is like the seen one."""
    pooled = seen.ratio
    mine, theirs = (resampled_ratios(seen, RESAMPLES, rng) - pooled for _ in range(2))
    low, high = np.quantile((mine - theirs) * _stickiness(seen), (LOW, HIGH), axis=0)
    return Interval(np.clip(pooled + low, 0, 1), np.clip(pooled + high, 0, 1))


def _stickiness(slices: Slices) -> FloatArray:
    """By how much a mean of slices varies more than if they were independent: (k,).

    A slice resembles the one before it: with a correlation r of neighbours, as in a first-order
    autoregression, the variance of a long mean is (1 + r) / (1 - r) times that of independent ones.
    """
    ratios = slices.hits / np.maximum(slices.total, 1.0)[:, None]
    centred = ratios - ratios.mean(axis=0)
    variance = np.maximum((centred**2).sum(axis=0), SMALLEST_VARIANCE)
    neighbours = np.clip((centred[1:] * centred[:-1]).sum(axis=0) / variance, 0.0, MOST_CORRELATION)
    factor: FloatArray = np.sqrt((1 + neighbours) / (1 - neighbours))
    return factor
