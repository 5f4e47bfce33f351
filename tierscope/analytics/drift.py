"""Whether a history drifts: its last slices, or its trend, differ by more than the slices' order explains.

Slices may be thin: what makes neighbours alike, sessions that are longer than a slice, is measured on what
the change itself leaves over, and weakens the evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.analytics.bootstrap import Slices
from tierscope.analytics.depths import BoolArray
from tierscope.domain.trace import FloatArray

MOST_CORRELATION = 0.95
SURE_CORRELATION = 2.0
"""Standard errors, 1 / sqrt(slices), from which a correlation of neighbours is told from none."""
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
    Where a slice resembles the one before it, there are fewer independent ones than slices, and the evidence
    counts as much less as its standard error is larger: by sqrt((1 + r) / (1 - r)) for a correlation of r.
    """
    ratios = slices.hits / np.maximum(slices.total, 1.0)[:, None]
    ratios = ratios[:, ratios.std(axis=0) > SMALLEST_SPREAD]
    if ratios.shape[1] == 0:
        return NO_SHIFT
    standard = (ratios - ratios.mean(axis=0)) / ratios.std(axis=0)
    contrasts = _contrasts(len(ratios), late)
    observed = np.abs(contrasts @ standard)
    column = int(observed.max(axis=0).argmax())
    evidence = observed.max() / _repetition(standard[:, column], contrasts)
    orders = rng.permuted(np.tile(np.arange(len(ratios)), (permutations, 1)), axis=1)
    as_strong = sum(np.abs(contrasts @ standard[order]).max() >= evidence for order in orders)
    strongest = ratios[:, column]
    difference = float(strongest[-late:].mean() - strongest[:-late].mean())
    return Shift(difference, float((1 + as_strong) / (1 + permutations)))


def _contrasts(slices: int, late: int) -> FloatArray:
    """Two weightings of slices in time order, centred and of length one: late against early, and a line."""
    jump = np.where(np.arange(slices) >= slices - late, 1.0, 0.0)
    rows = np.stack((jump, np.arange(slices, dtype=np.float64)))
    rows -= rows.mean(axis=1, keepdims=True)
    normed: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normed


def _repetition(values: FloatArray, contrasts: FloatArray) -> float:
    """How much larger than among independent slices the error of their contrasts is: 1 or more.

    `values` (slices,) less what the contrasts and the best of all jumps explain of them are taken for an
    autoregression of first order.
    """
    n = len(values)
    jumps = (np.vstack((contrasts, _centred(np.arange(n) >= cut))) for cut in range(1, n))
    rest = min((_rest(values, directions) for directions in jumps), key=lambda left: float(left @ left))
    spread = float(rest @ rest)
    neighbours = float(rest[1:] @ rest[:-1]) / spread if spread > SMALLEST_SPREAD else 0.0
    if neighbours < SURE_CORRELATION / np.sqrt(n):
        return 1.0
    most = min(neighbours, MOST_CORRELATION)
    return float(np.sqrt((1 + most) / (1 - most)))


def _rest(values: FloatArray, directions: FloatArray) -> FloatArray:
    """What is left of values (n,) without their parts along directions (m, n)."""
    found: FloatArray = values - directions.T @ np.linalg.lstsq(directions.T, values, rcond=None)[0]
    return found


def _centred(marks: BoolArray) -> FloatArray:
    shares: FloatArray = marks - marks.mean()
    return shares
