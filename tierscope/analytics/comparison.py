"""Two sets of timings compared: medians, how many times faster, and from which length on. Pure.

Intervals are of 95 %, by resampling the timings themselves: each is of a prompt of its own, so they do not
depend on each other as requests of a trace do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tierscope.analytics.bootstrap import HIGH, LOW
from tierscope.domain.trace import FloatArray

RESAMPLES = 2000

Timings = Mapping[int, Sequence[float]]
"""Seconds by prompt length in tokens."""


class Estimate(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float


def median_of(seconds: Sequence[float], rng: np.random.Generator) -> Estimate:
    """The median of at least one timing."""
    return _estimate(float(np.median(seconds)), _medians(seconds, rng))


def ratio_of(slow: Sequence[float], fast: Sequence[float], rng: np.random.Generator) -> Estimate:
    """How many times the median of `fast` that of `slow` is; both have at least one timing."""
    value = float(np.median(slow) / np.median(fast))
    return _estimate(value, _medians(slow, rng) / _medians(fast, rng))


def break_even(computed: Timings, loaded: Timings, rng: np.random.Generator) -> Estimate | None:
    """The length from which on loading is faster than computing, by a line through the medians of each.

    None without two lengths that both have, and where loading does not win by growing slower. A high end
    of infinity says that in some resamplings it never wins; 0 that it is faster at every length.
    """
    lengths = sorted(n for n in computed.keys() & loaded.keys() if computed[n] and loaded[n])
    if len(lengths) < 2:
        return None
    at = np.array(lengths, dtype=np.float64)

    def medians(timings: Timings) -> FloatArray:
        return np.array([[np.median(timings[n])] for n in lengths])

    def resampled(timings: Timings) -> FloatArray:
        return np.stack([_medians(timings[n], rng) for n in lengths])

    value = float(_crossing(at, medians(computed), medians(loaded))[0])
    if not np.isfinite(value):
        return None
    return _estimate(value, _crossing(at, resampled(computed), resampled(loaded)))


def _crossing(at: FloatArray, computed: FloatArray, loaded: FloatArray) -> FloatArray:
    """Where the lines through two sets of points (lengths, resamples) meet; infinity where they part."""
    slopes, starts = np.polyfit(at, computed - loaded, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing: FloatArray = np.where(slopes > 0, np.maximum(-starts / slopes, 0.0), np.inf)
    return crossing


def _medians(seconds: Sequence[float], rng: np.random.Generator) -> FloatArray:
    values = np.asarray(seconds, dtype=np.float64)
    medians: FloatArray = np.median(rng.choice(values, (RESAMPLES, len(values))), axis=1)
    return medians


def _estimate(value: float, resampled: FloatArray) -> Estimate:
    low, high = np.quantile(resampled, (LOW, HIGH), method="nearest")
    return Estimate(value, float(low), float(high))
