"""Whether a history drifts: its last slices, or its trend, differ by more than the slices' order explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.analytics.bootstrap import Slices
from tierscope.domain.trace import FloatArray

SMALLEST_SPREAD = 1e-9
"""A ratio that varies less between slices than this is constant."""


class Shift(NamedTuple):
    """How far the last slices lie from the earlier ones.

    `ratio` is the difference of the hit ratio that gave the strongest evidence, signed (late minus early);
    `p_value` is the share of random orders of the same slices with evidence at least as strong.
    """

    ratio: float
    p_value: float


NO_SHIFT = Shift(0.0, 1.0)


def shift_of(slices: Slices, late: int, permutations: int, rng: np.random.Generator) -> Shift:
    """Compare the last `late` slices with the earlier ones, and look for a trend, on all k ratios at once.

    A jump and a slow change each have a contrast that finds them; the strongest over both and over the k
    columns is set against the strongest in random orders, so that testing many sizes needs no correction.
    """
    ratios = slices.hits / np.maximum(slices.total, 1.0)[:, None]
    ratios = ratios[:, ratios.std(axis=0) > SMALLEST_SPREAD]
    if ratios.shape[1] == 0:
        return NO_SHIFT
    standard = (ratios - ratios.mean(axis=0)) / ratios.std(axis=0)
    contrasts = _contrasts(len(ratios), late)
    observed = np.abs(contrasts @ standard)
    orders = rng.permuted(np.tile(np.arange(len(ratios)), (permutations, 1)), axis=1)
    as_strong = sum(np.abs(contrasts @ standard[order]).max() >= observed.max() for order in orders)
    strongest = ratios[:, int(observed.max(axis=0).argmax())]
    difference = float(strongest[-late:].mean() - strongest[:-late].mean())
    return Shift(difference, float((1 + as_strong) / (1 + permutations)))


def _contrasts(slices: int, late: int) -> FloatArray:
    """Two weightings of slices in time order, centred and of length one: late against early, and a line."""
    jump = np.where(np.arange(slices) >= slices - late, 1.0, 0.0)
    rows = np.stack((jump, np.arange(slices, dtype=np.float64)))
    rows -= rows.mean(axis=1, keepdims=True)
    normed: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normed
