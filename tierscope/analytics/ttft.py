"""What a token costs in TTFT by where it came from: a robust fit on recorded requests.

TTFT less queue = fixed + computed tokens x c + L1 tokens x l1 + L2 tokens x l2, fitted by weighted least
absolute deviations: noise is multiplicative, so each row is divided by a first prediction, and a line of
medians is not moved by the few requests that took ten times as long. Coefficients are not negative. The same
fit for another quantile weighs what lies above the line by it, and what lies below by the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.domain.trace import FloatArray

MOST_ITERATIONS = 60
"""Reweightings of one fit; the loss stops moving after about 20."""
SMALLEST_RESIDUAL = 1e-6
"""Residuals below this share of the median are treated as this large, or their weight would be infinite."""
SMALLEST_PREDICTION_SECONDS = 1e-6
"""A predicted time is never less; ratios to it stay finite."""


class TtftFit(NamedTuple):
    """Seconds for the fixed part and for one token of each origin: `coefficients` (1 + origins,).

    `error_ratio` is the median of |observed / fitted - 1|: the noise that is left.
    """

    coefficients: FloatArray
    error_ratio: float

    def seconds(self, tokens: FloatArray) -> FloatArray:
        """Predicted TTFT less queue of requests with `tokens` (n, origins): (n,) seconds, above 0."""
        predicted: FloatArray = self.coefficients[0] + tokens @ self.coefficients[1:]
        return np.maximum(predicted, SMALLEST_PREDICTION_SECONDS)


def fit_ttft(tokens: FloatArray, seconds: FloatArray, quantile: float = 0.5) -> TtftFit:
    """Fit a quantile of seconds (n,) on tokens by origin (n, origins); more rows than columns, all finite."""
    design = np.column_stack((np.ones(len(tokens)), tokens))
    weights = np.ones(len(seconds))
    for _ in range(3):
        coefficients = _not_negative(design * weights[:, None], seconds * weights, quantile)
        fit = TtftFit(coefficients, 0.0)
        weights = 1 / np.maximum(fit.seconds(tokens), 0.01 * float(np.median(seconds)) + 1e-9)
    ratio = seconds / fit.seconds(tokens)
    return TtftFit(coefficients, float(np.median(np.abs(ratio - 1))))


def _not_negative(design: FloatArray, target: FloatArray, quantile: float) -> FloatArray:
    """Least absolute deviations without negative coefficients: drop the most negative one and fit again."""
    kept = np.flatnonzero(np.abs(design).sum(axis=0) > 0)
    result = np.zeros(design.shape[1])
    while len(kept):
        found = _least_absolute(design[:, kept], target, quantile)
        if found.min() >= 0:
            result[kept] = found
            return result
        kept = np.delete(kept, int(found.argmin()))
    return result


def _least_absolute(design: FloatArray, target: FloatArray, quantile: float) -> FloatArray:
    """Minimise the sum of |target - design @ x|, each side by its weight, by reweighted least squares."""
    scale = np.abs(design).max(axis=0)
    scaled = design / scale
    found = np.linalg.lstsq(scaled, target, rcond=None)[0]
    floor = SMALLEST_RESIDUAL * float(np.median(np.abs(target))) + 1e-12
    for _ in range(MOST_ITERATIONS):
        residual = target - scaled @ found
        side = np.where(residual > 0, quantile, 1 - quantile)
        root = np.sqrt(side / np.maximum(np.abs(residual), floor))
        after = np.linalg.lstsq(scaled * root[:, None], target * root, rcond=None)[0]
        if np.abs(after - found).max() <= 1e-9 * np.abs(after).max():
            found = after
            break
        found = after
    unscaled: FloatArray = found / scale
    return unscaled
