"""The smallest size of one tier that meets the objective, and whether it is worth a change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tierscope.advice.history import History, Measured
from tierscope.advice.thresholds import (
    GRID_SIZES,
    REFINED_SIZES,
    RESAMPLES,
    ROUNDING_SHARE,
    SMALLEST_GAIN,
    SMALLEST_SAVING,
)
from tierscope.analytics.attribution import Stream
from tierscope.analytics.bootstrap import HIGH, LOW, Slices, resampled_ratios
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray, Int64Array


class Verdict(StrEnum):
    """What is to be done with a tier's size."""

    KEEP = "keep"
    GROW = "grow"
    SHRINK = "shrink"


@dataclass(frozen=True, slots=True)
class SizingTask:
    """One tier to size: `base` (n,) tokens come from the tiers above; sizes are of one holder, in bytes."""

    tier: Tier
    stream: Stream
    base: Int64Array
    bytes_per_unit: float
    current_bytes: float
    limit_bytes: float | None
    least_bytes: float
    target: float

    @property
    def least_units(self) -> int:
        """The least that may be advised."""
        return max(math.ceil(self.least_bytes / self.bytes_per_unit), 1)

    def units(self, size_bytes: float) -> int:
        """Whole units that fit into a size; at least one, since no cache holds less."""
        return max(int(size_bytes // self.bytes_per_unit), 1)


class SizeCurve(NamedTuple):
    """Hit ratio of a tier and those above at k ascending sizes: units (k,), sums in `measured`."""

    capacities_units: Int64Array
    measured: Measured

    @property
    def ratio(self) -> FloatArray:
        """Hit ratio at each size, never falling with size: (k,)."""
        return self.measured.slices.ratio

    def column(self, units: int) -> int:
        """Index of the largest measured size that is not above `units`; of the smallest if none is."""
        return max(int(np.searchsorted(self.capacities_units, units, side="right")) - 1, 0)

    def at(self, units: int) -> float:
        """Hit ratio at a size, or at the next smaller one that was measured."""
        return float(self.ratio[self.column(units)])

    def smallest(self, target: float) -> int:
        """The smallest measured size that gives `target` of what the largest gives, at first and lately.

        What is asked for again for the first time within the window looks new, so the hit ratio of large
        sizes is too low early on, and the size drawn from it with them: the later half alone is nearer.
        """
        enough = np.ones(len(self.capacities_units), dtype=np.bool_)
        for slices in (self.measured.slices, _later_half(self.measured.slices)):
            enough &= slices.ratio >= target * slices.ratio[-1] - 1e-12
        return int(self.capacities_units[enough.argmax()])


@dataclass(frozen=True, slots=True)
class TierSizing:
    """The answer for one tier. Sizes are bytes of one holder.

    `wanted` meets the target, with the interval `wanted_low`..`wanted_high`; `chosen` is what is advised
    after rounding, limits and the cost of a change (`current_bytes` of the task when nothing is).
    `floored` says that hits alone would need less than the least, `limited` that the limit is in the way.
    """

    task: SizingTask
    curve: SizeCurve
    goal_ratio: float
    wanted_bytes: float
    wanted_low_bytes: float
    wanted_high_bytes: float
    chosen_bytes: float
    verdict: Verdict
    floored: bool
    limited: bool
    warm_ratio: float

    @property
    def holdout_error(self) -> float:
        """How far the first half of the window misses the second half's hit ratio at the chosen size."""
        column = self.curve.column(self.task.units(self.chosen_bytes))
        return float(abs(self.curve.measured.predicted[column] - self.curve.measured.observed[column]))

    def ratio_at(self, size_bytes: float) -> float:
        """Hit ratio of this tier and those above it at a size of one holder."""
        return self.curve.at(self.task.units(size_bytes))


def size_tier(task: SizingTask, history: History, rng: np.random.Generator) -> TierSizing:
    """Find the smallest size whose hit ratio, with the tiers above, is `target` of what unlimited gives."""
    curve = _refined(task, history, _grid(task))
    goal = task.target * float(curve.ratio[-1])
    wanted_units = curve.smallest(task.target)
    resampled = resampled_ratios(curve.measured.slices, RESAMPLES, rng)
    low, high = _size_interval(curve.capacities_units, resampled, task.target)
    rounded = round_up_bytes(max(wanted_units, task.least_units) * task.bytes_per_unit)
    most = math.inf if task.limit_bytes is None else max(task.limit_bytes, task.current_bytes)
    verdict = _verdict(task, curve, resampled, min(rounded, most))
    return TierSizing(
        task=task,
        curve=curve,
        goal_ratio=goal,
        wanted_bytes=wanted_units * task.bytes_per_unit,
        wanted_low_bytes=float(low) * task.bytes_per_unit,
        wanted_high_bytes=max(float(high), wanted_units) * task.bytes_per_unit,
        chosen_bytes=task.current_bytes if verdict is Verdict.KEEP else min(rounded, most),
        verdict=verdict,
        floored=wanted_units < task.least_units,
        limited=rounded > most,
        warm_ratio=filled_share(task.stream, history, wanted_units),
    )


def size_curve(task: SizingTask, history: History, capacities_units: Int64Array) -> SizeCurve:
    """Measure one tier at some sizes, ascending."""
    return SizeCurve(capacities_units, history.measure_sizes(task.stream, task.base, capacities_units))


def round_up_bytes(size_bytes: float) -> float:
    """Round a size up to a multiple of a power of two that is at most `ROUNDING_SHARE` of it.

    >>> round_up_bytes(1000.0)
    1008.0
    """
    if size_bytes <= 1:
        return math.ceil(size_bytes)
    step = 2.0 ** math.floor(math.log2(size_bytes * ROUNDING_SHARE))
    return max(math.ceil(size_bytes / step) * step, 1.0)


def _later_half(slices: Slices) -> Slices:
    middle = len(slices.total) // 2
    return Slices(slices.hits[middle:], slices.total[middle:])


def _verdict(task: SizingTask, curve: SizeCurve, resampled: FloatArray, chosen_bytes: float) -> Verdict:
    today = curve.at(task.units(task.current_bytes))
    then = curve.at(task.units(chosen_bytes))
    if chosen_bytes <= (1 - SMALLEST_SAVING) * task.current_bytes:
        return Verdict.SHRINK
    # Both ratios come from the same resampled history, so their difference is known far better than each.
    column = curve.column(task.units(task.current_bytes))
    lacking = task.target * resampled[:, -1] - resampled[:, column]
    attained_within_interval = float(np.quantile(lacking, LOW)) <= 0
    if attained_within_interval or chosen_bytes <= task.current_bytes or then - today < SMALLEST_GAIN:
        return Verdict.KEEP
    return Verdict.GROW


def _size_interval(capacities_units: Int64Array, resampled: FloatArray, target: float) -> FloatArray:
    """Both ends of the size that meets the target in 95 % of resampled histories: (2,) units."""
    enough = resampled >= target * resampled[:, -1:] - 1e-12
    sizes = capacities_units[enough.argmax(axis=1)]
    ends: FloatArray = np.quantile(sizes, (LOW, HIGH))
    return ends


def filled_share(stream: Stream, history: History, wanted_units: int) -> float:
    """Share of a size, over all holders, that was filled before measuring began."""
    filled = np.minimum(stream.footprint_units(history.first_measured), wanted_units)
    return float(filled.sum() / (len(filled) * wanted_units)) if len(filled) else 0.0


def _grid(task: SizingTask) -> Int64Array:
    """Ascending sizes from the least to one that holds everything, today's and the limit among them."""
    most = max(int(task.stream.footprint_units().max(initial=0)), 1)
    longest = max(task.stream.longest_units(), 1)
    sizes = np.geomspace(min(longest, most), most, GRID_SIZES).round().astype(np.int64)
    marks = [task.units(size) for size in (task.current_bytes, task.limit_bytes) if size is not None]
    return np.unique(np.array([*sizes, *(mark for mark in marks if mark < most), most], dtype=np.int64))


def _refined(task: SizingTask, history: History, grid: Int64Array) -> SizeCurve:
    """The curve over the grid and, finer, between the two sizes that enclose the answer."""
    curve = size_curve(task, history, grid)
    wanted = curve.smallest(task.target)
    below = int(grid[max(int(np.searchsorted(grid, wanted)) - 1, 0)])
    between = np.unique(np.linspace(below, wanted, REFINED_SIZES + 2).astype(np.int64))
    between = between[~np.isin(between, grid)]
    return _merged(curve, size_curve(task, history, between)) if len(between) else curve


def _merged(one: SizeCurve, other: SizeCurve) -> SizeCurve:
    """Two curves over the same requests as one, ascending in size."""
    capacities = np.concatenate((one.capacities_units, other.capacities_units))
    order = np.argsort(capacities)
    a, b = one.measured, other.measured
    both = Measured(
        Slices(np.concatenate((a.slices.hits, b.slices.hits), axis=1)[:, order], a.slices.total),
        np.concatenate((a.predicted, b.predicted))[order],
        np.concatenate((a.observed, b.observed))[order],
    )
    return SizeCurve(capacities[order], both)
