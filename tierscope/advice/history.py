"""One window cut the way advice measures it: warm-up, slices to resample, and halves to hold out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.advice.thresholds import SLICES, WARM_UP_SHARE
from tierscope.analytics.attribution import Stream
from tierscope.analytics.bootstrap import Slices, slice_starts
from tierscope.domain.trace import FloatArray, Int64Array


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

    def measure(self, *hits: Int64Array) -> Measured:
        """Sum hit tokens (n,) of each of k columns in all the ways advice needs."""
        for column in hits:
            self._refuse_others(len(column))
        cuts = self._cuts()
        return self._measured(np.column_stack([np.add.reduceat(one, cuts[:-1]) for one in hits]), cuts)

    def measure_sizes(self, stream: Stream, base: Int64Array, capacities_units: Int64Array) -> Measured:
        """Measure one tier over tiers above it that give `base` (n,) tokens, at each size: k columns."""
        self._refuse_others(len(base))
        self._refuse_others(stream.requests)
        cuts = self._cuts()
        most = self._most()
        return self._measured(stream.served_sums(base, most, capacities_units, cuts), cuts)

    def _refuse_others(self, requests: int) -> None:
        """Sums of other requests would be held against these prompts, and nobody would see it."""
        if requests != len(self.prompt):
            raise ValueError(f"hits of {requests} requests are not those of {len(self.prompt)} prompts")

    def _starts(self) -> Int64Array:
        """The first request of each measured slice."""
        return slice_starts(self.first_measured, len(self.prompt), SLICES)

    def _halves(self) -> tuple[int, int]:
        """Where the hold-out's first half is warm, and where it ends."""
        half = len(self.prompt) // 2
        return int(half * WARM_UP_SHARE), half

    def _cuts(self) -> Int64Array:
        """Everything sums are needed of begins and ends at some of these requests: ascending, to the end."""
        return np.unique(np.concatenate((self._halves(), self._starts(), [len(self.prompt)])))

    def _measured(self, sums: Int64Array, cuts: Int64Array) -> Measured:
        """Put sums by stretch (stretches, k) together, and those of the prompts beside them."""
        prompt = np.add.reduceat(self.prompt, cuts[:-1])
        first = np.searchsorted(cuts, self._starts())
        warm, half = np.searchsorted(cuts, self._halves())

        def ratio(begin: int, end: int) -> FloatArray:
            found: FloatArray = sums[begin:end].sum(axis=0) / max(int(prompt[begin:end].sum()), 1)
            return found

        slices = Slices(
            np.add.reduceat(sums, first, axis=0).astype(np.float64),
            np.add.reduceat(prompt, first).astype(np.float64),
        )
        return Measured(slices, ratio(warm, half), ratio(half, len(prompt)))

    def over(self, base: Int64Array, tokens: Int64Array) -> Int64Array:
        """Tokens that a tier and those above it serve together: (n,) each."""
        found = np.minimum(tokens, self._most())
        return np.maximum(found, base, out=found)

    def _most(self) -> Int64Array:
        """The most tokens of each prompt that can be served: (n,)."""
        most = self.prompt - 1
        return np.maximum(most, 0, out=most)
