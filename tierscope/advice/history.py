"""One window cut the way advice measures it: warm-up, slices to resample, and halves to hold out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.advice.thresholds import SLICES, WARM_UP_SHARE
from tierscope.analytics.attribution import Stream
from tierscope.analytics.bootstrap import Slices, slice_sums
from tierscope.domain.trace import FloatArray, Int64Array

BATCH = 16
"""Sizes evaluated together: bounds memory to 128 bytes a request however fine the grid is."""


class Measured(NamedTuple):
    """Hit tokens of k sizes: by measured slice, and the hold-out's prediction and truth as ratios (k,)."""

    slices: Slices
    predicted: FloatArray
    observed: FloatArray

    @property
    def holdout_mae(self) -> float:
        """Mean over sizes of how far the first half's ratio is from the second half's."""
        return float(np.abs(self.predicted - self.observed).mean())


@dataclass(frozen=True, slots=True)
class History:
    """How a window of n requests with `prompt` (n,) tokens is cut.

    The first `WARM_UP_SHARE` only fills caches. The hold-out predicts the second half of the window from
    the warm part of its first half.
    """

    prompt: Int64Array

    @property
    def first_measured(self) -> int:
        """Index of the first request that counts."""
        return int(len(self.prompt) * WARM_UP_SHARE)

    def measure(self, hits: Int64Array) -> Measured:
        """Sum hit tokens (n, k) in all the ways advice needs."""
        half = len(self.prompt) // 2
        warm_half = int(half * WARM_UP_SHARE)
        start = self.first_measured
        return Measured(
            slice_sums(hits[start:], self.prompt[start:], SLICES),
            self._ratio(hits, warm_half, half),
            self._ratio(hits, half, len(self.prompt)),
        )

    def measure_sizes(self, stream: Stream, base: Int64Array, capacities_units: Int64Array) -> Measured:
        """Measure one tier over tiers above it that give `base` (n,) tokens, at each size: k columns."""
        parts = []
        for first in range(0, len(capacities_units), BATCH):
            tokens = stream.hit_tokens(capacities_units[first : first + BATCH])
            parts.append(self.measure(self.over(base, tokens)))
        return Measured(
            Slices(np.concatenate([part.slices.hits for part in parts], axis=1), parts[0].slices.total),
            np.concatenate([part.predicted for part in parts]),
            np.concatenate([part.observed for part in parts]),
        )

    def over(self, base: Int64Array, tokens: Int64Array) -> Int64Array:
        """Tokens that a tier and those above it serve together: (n,) and (n, k) make (n, k)."""
        most = np.maximum(self.prompt - 1, 0)[:, None]
        return np.maximum(np.minimum(tokens, most), base[:, None])

    def _ratio(self, hits: Int64Array, first: int, last: int) -> FloatArray:
        total = max(int(self.prompt[first:last].sum()), 1)
        ratio: FloatArray = hits[first:last].sum(axis=0) / total
        return ratio
