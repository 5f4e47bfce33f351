"""How far a measured ratio may be off: slices of time are resampled, as requests depend on each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.domain.trace import FloatArray, Int64Array

LOW, HIGH = 0.025, 0.975
"""Quantiles of a 95 % interval."""


class Slices(NamedTuple):
    """Sums over consecutive slices of a history: `hits` (slices, k) and `total` (slices,), in tokens."""

    hits: FloatArray
    total: FloatArray

    @property
    def ratio(self) -> FloatArray:
        """The pooled ratio of each of the k columns; 0 where nothing was asked."""
        total = self.total.sum()
        return self.hits.sum(axis=0) / total if total else np.zeros(self.hits.shape[1])


class Interval(NamedTuple):
    """Ends of an interval for each of k values: (k,) each."""

    low: FloatArray
    high: FloatArray


def slice_sums(hits: Int64Array | FloatArray, total: Int64Array, slices: int) -> Slices:
    """Cut n requests into `slices` runs of equal count and sum each: `hits` (n, k), `total` (n,).

    There must be at least as many requests as slices.
    """
    starts = slice_starts(0, len(total), slices)
    return Slices(
        np.add.reduceat(hits, starts, axis=0).astype(np.float64),
        np.add.reduceat(total, starts).astype(np.float64),
    )


def slice_starts(first: int, end: int, slices: int) -> Int64Array:
    """Where `slices` runs of equal count of the requests first..end - 1 begin: (slices,).

    Fewer requests than slices are refused: `reduceat` would count one of them in several slices.
    """
    if end - first < slices:
        raise ValueError(f"{end - first} requests cannot be cut into {slices} slices")
    return first + np.linspace(0, end - first, slices, endpoint=False).astype(np.int64)


def resampled_ratios(slices: Slices, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Ratios of `resamples` histories made of slices drawn with replacement: (resamples, k)."""
    n = len(slices.total)
    draws = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)
    total = np.maximum(draws @ slices.total, 1.0)
    ratios: FloatArray = draws @ slices.hits / total[:, None]
    return ratios


def interval_of(resampled: FloatArray, widen: FloatArray | float = 0.0) -> Interval:
    """The central 95 % of resampled ratios (resamples, k), inside 0 to 1.

    `widen`, one value or one a column (k,), is added on both sides for what resampling cannot see.
    """
    low, high = np.quantile(resampled, (LOW, HIGH), axis=0)
    return Interval(np.clip(low - widen, 0, 1), np.clip(high + widen, 0, 1))


def slice_draws(slices: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each slice is in each of `resamples` histories: (resamples, slices)."""
    return rng.multinomial(slices, np.full(slices, 1 / slices), size=resamples).astype(np.float64)


def resampled_quantiles(values: FloatArray, draws: FloatArray, q: float) -> FloatArray:
    """The q-quantile of m values, in order of time, in each resampling of their slices: (resamples,).

    Halving the sorted values until each resampling has found its own: log m steps instead of all m.
    """
    slices = draws.shape[1]
    order = np.argsort(values)
    slice_of = order * slices // len(values)
    up_to = np.cumsum(slice_of[:, None] == np.arange(slices), axis=0)
    wanted = q * (draws @ up_to[-1])
    low, high = np.zeros(len(draws), dtype=np.int64), np.full(len(draws), len(values) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        enough = (draws * up_to[middle]).sum(axis=1) >= wanted
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    found: FloatArray = values[order][low]
    return found
