"""How far our own advice would have been off: the second half of a trace predicted from the first.

Caches stay warm across the cut. The cold start of the first half is left out: it says how a cache fills, not
what it hits. The interval is one for a new observation, not for a mean: it has to cover the luck of the half
that was seen and that of the half to come, so two resampled deviations are added up, each over slices of time
long enough to be about independent.

No history tells how much traffic comes next, so that is kept apart from what a history can tell: where
sessions are known, the same prediction is also given for as many sessions as came to take turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.analytics.bootstrap import HIGH, LOW, Interval, Slices, resampled_ratios, slice_sums
from tierscope.analytics.chains import Chains
from tierscope.analytics.curve import hit_blocks_per_request
from tierscope.analytics.drift import Shift, shift_of
from tierscope.analytics.load import at_other_load, sessions_taking_turns
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import FloatArray, Int32Array, Int64Array

WARM_SHARE = 0.3
"""Share of the first half that only fills the caches."""
SLICES = 20
DRIFT_SLICES = 60
"""Thinner than for intervals: a test gains from more of them, and takes account of their likeness itself."""
LATE_SHARE = 0.25
"""Share of the slices that a jump is looked for in."""
RESAMPLES = 400
PERMUTATIONS = 999
DRIFT_P_VALUE = 0.025
SMALLEST_SHIFT = 0.03
"""A shift of fewer points of hit ratio is no drift, however certain it is."""
SMALLEST_VARIANCE = 1e-12
MOST_CORRELATION = 0.9
"""With more, twenty slices are hardly two independent ones, and the estimate of it is worth nothing."""
FEWEST_REQUESTS = 300
BATCH_SIZES = 16
"""Sizes replayed together; bounds memory to 128 bytes a request."""


class Drift(NamedTuple):
    """Whether a history drifts, by how much and how surely."""

    found: bool
    shift: Shift


@dataclass(frozen=True, slots=True)
class Forecast:
    """Hit ratios of k capacities: predicted with a 95 % interval, and observed; (k,) each."""

    predicted: FloatArray
    interval: Interval
    observed: FloatArray

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


@dataclass(frozen=True, slots=True)
class Load:
    """The same forecast for as many sessions as took turns in the coming half; means over a half."""

    sessions_seen: float
    sessions_coming: float
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Holdout(Forecast):
    """A forecast of the second half from the first; `load` is None where sessions are not known.

    `drift` is what the seen half shows by itself.
    """

    capacities_blocks: Int64Array
    drift: Drift
    load: Load | None


def hold_out(
    chains: Chains,
    capacities_blocks: Int64Array,
    rng: np.random.Generator,
    session: Int32Array | None = None,
) -> Holdout:
    """Predict the second half's hit ratio at each capacity (rising); too short a trace raises `BadInput`.

    `session` (n,) tells which requests belong together, -1 where unknown.
    """
    n = chains.requests
    if n < FEWEST_REQUESTS:
        raise BadInput(
            f"{n} requests are too few to predict one half from the other",
            where="hold_out",
            fix=f"give a trace of at least {FEWEST_REQUESTS} requests",
        )
    half = n // 2
    warm = int(half * WARM_SHARE)
    seen, coming, thin = _halves(chains, capacities_blocks, warm, half)
    forecast = Forecast(seen.ratio, _interval(seen, rng), coming.ratio)
    drift = drift_of(_full(thin, chains, capacities_blocks, warm), rng)
    interval = forecast.interval
    if drift.found:
        loads = None if session is None else _loads_seen(session, warm)
        interval = _as_it_changed(interval, capacities_blocks, _trend(seen, half), loads)
    return Holdout(
        predicted=seen.ratio,
        interval=interval,
        observed=coming.ratio,
        capacities_blocks=capacities_blocks,
        drift=drift,
        load=None if session is None else _at_load(session, capacities_blocks, forecast, coming, warm),
    )


def drift_of(slices: Slices, rng: np.random.Generator) -> Drift:
    """Whether slices in time order come from one workload."""
    shift = shift_of(slices, int(len(slices.total) * LATE_SHARE), PERMUTATIONS, rng)
    return Drift(shift.p_value <= DRIFT_P_VALUE and abs(shift.ratio) >= SMALLEST_SHIFT, shift)


def _full(slices: Slices, chains: Chains, capacities: Int64Array, warm: int) -> Slices:
    """The sizes that the warm-up filled: others show a cache that warms up, not a workload that changes."""
    filled = len(np.unique(chains.ids[: chains.offsets[warm]]))
    return Slices(slices.hits[:, capacities <= filled], slices.total)


def _at_load(
    session: Int32Array, capacities: Int64Array, forecast: Forecast, coming: Slices, warm: int
) -> Load | None:
    """The forecast at the load of each slice of the coming half, by what each was asked for."""
    n = len(session)
    before = sessions_taking_turns(session, warm, n // 2, 1)
    after = sessions_taking_turns(session, n // 2, n, SLICES)
    if before is None or after is None:
        return None
    moved = (
        at_other_load(capacities, values, after / before[0], coming.total)
        for values in (forecast.predicted, *forecast.interval)
    )
    predicted, low, high = moved
    sessions = float(after @ coming.total / coming.total.sum())
    return Load(float(before[0]), sessions, Forecast(predicted, Interval(low, high), forecast.observed))


def _loads_seen(session: Int32Array, warm: int) -> FloatArray | None:
    """The least and the most sessions that took turns in any slice of the seen half, over their mean: (2,).

    The warm-up counts too: it is no guide to what a cache hits, but its load was as real as any.
    """
    half = len(session) // 2
    mean = sessions_taking_turns(session, warm, half, 1)
    each = sessions_taking_turns(session, 0, half, SLICES)
    if mean is None or each is None:
        return None
    return np.array([min(each.min() / mean[0], 1.0), max(each.max() / mean[0], 1.0)])


def _trend(seen: Slices, half: int) -> FloatArray:
    """How far from the seen mean the coming half's would be, if all went on along its line: (k,)."""
    ratios = seen.hits / np.maximum(seen.total, 1.0)[:, None]
    at = np.arange(len(ratios)) - (len(ratios) - 1) / 2
    slope = at @ ratios / (at @ at)
    warm = int(half * WARM_SHARE)
    slices_apart = len(ratios) / 2 * (1 + half / (half - warm))
    moved: FloatArray = slope * slices_apart
    return moved


def _as_it_changed(
    interval: Interval, capacities: Int64Array, trend: FloatArray, loads: FloatArray | None
) -> Interval:
    """The interval of a history that drifts: all stays as it was, or goes on as it changed.

    That is along its line, and where sessions are known also back to the least or the most load it saw.
    """
    low, high = interval.low + np.minimum(trend, 0), interval.high + np.maximum(trend, 0)
    if loads is not None:
        alone = np.ones(1)
        low = np.minimum(low, at_other_load(capacities, interval.low, loads[1:], alone))
        high = np.maximum(high, at_other_load(capacities, interval.high, loads[:1], alone))
    return Interval(np.clip(low, 0, 1), np.clip(high, 0, 1))


def _halves(
    chains: Chains, capacities_blocks: Int64Array, warm: int, half: int
) -> tuple[Slices, Slices, Slices]:
    """Sums over slices of the first half's warm part, of the second half, and of the former, thin."""
    asked = np.diff(chains.offsets)
    seen, coming = slice(warm, half), slice(half, None)
    cuts = ((seen, SLICES), (coming, SLICES), (seen, DRIFT_SLICES))
    parts: tuple[list[Slices], ...] = ([], [], [])
    for first in range(0, len(capacities_blocks), BATCH_SIZES):
        hits = hit_blocks_per_request(chains, capacities_blocks[first : first + BATCH_SIZES]).astype(np.int64)
        for part, (span, slices) in zip(parts, cuts, strict=True):
            part.append(slice_sums(hits[span], asked[span], slices))
    first_half, second_half, thin = (
        Slices(np.concatenate([batch.hits for batch in part], axis=1), part[0].total) for part in parts
    )
    return first_half, second_half, thin


def _interval(seen: Slices, rng: np.random.Generator) -> Interval:
    """Where the coming half's ratio lies 95 times of 100, if it is like the seen one."""
    pooled = seen.ratio
    mine, theirs = (resampled_ratios(seen, RESAMPLES, rng) - pooled for _ in range(2))
    low, high = np.quantile((mine - theirs) * _stickiness(seen), (LOW, HIGH), axis=0)
    return Interval(np.clip(pooled + low, 0, 1), np.clip(pooled + high, 0, 1))


def _stickiness(slices: Slices) -> FloatArray:
    """By how much a mean of slices varies more than if they were independent: (k,).

    A slice resembles the one before it: with a correlation r of neighbours, as in a first-order
    autoregression, the variance of a long mean is (1 + r) / (1 - r) times that of independent ones. So few
    slices show r too small by about (1 + 3 r) / slices (Kendall, Biometrika 41, 1954), which is added.
    """
    ratios = slices.hits / np.maximum(slices.total, 1.0)[:, None]
    centred = ratios - ratios.mean(axis=0)
    variance = np.maximum((centred**2).sum(axis=0), SMALLEST_VARIANCE)
    shown = (centred[1:] * centred[:-1]).sum(axis=0) / variance
    neighbours = np.clip(shown + (1 + 3 * shown) / len(ratios), 0.0, MOST_CORRELATION)
    factor: FloatArray = np.sqrt((1 + neighbours) / (1 - neighbours))
    return factor
