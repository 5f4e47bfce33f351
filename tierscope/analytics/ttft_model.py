"""The TTFT model of one deployment: median and p90 by origin of tokens, how sure, and whether it holds.

A model that does not hold says why, and its numbers are not for use: too few requests, a tier hardly ever
loaded from, columns that rise and fall together, times that wait for a place and not for tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tierscope.analytics.ttft import TtftFit, fit_ttft
from tierscope.domain.trace import FloatArray

ORIGINS = ("computed", "l1", "l2")
"""Columns of tokens, in order; what L0 serves costs nothing."""
FEWEST_REQUESTS = 200
FEWEST_LOADS = 30
"""Requests that loaded from a tier before its cost can be told from noise."""
MOST_ERROR_RATIO = 0.5
MOST_QUEUE_SHARE = 0.5
MOST_CONDITION = 30.0
"""Beyond it the columns, each scaled to length one, are hardly told apart (Belsley's rule of thumb)."""
TWO_SIDED_95 = 1.96


@dataclass(frozen=True, eq=False)
class TtftModel:
    """Seconds: fixed, and for a token of each origin. `low` and `high` (4,) are the median's 95 % interval.

    `problems` say why the model is not to be used; empty where its conditions hold. `tokens` (n, 3) and
    `service_seconds` (n,), TTFT less queue, are what it was fitted on.
    """

    tokens: FloatArray
    service_seconds: FloatArray
    median: TtftFit
    low: FloatArray
    high: FloatArray
    problems: tuple[str, ...]

    @cached_property
    def p90(self) -> TtftFit:
        """The same of the time that nine of ten requests stay below; fitted when it is asked for."""
        if len(self.service_seconds) <= len(ORIGINS) + 1:
            return self.median
        return fit_ttft(self.tokens, self.service_seconds, 0.9)

    def break_even_bytes_per_second(self, bytes_per_token: float) -> float | None:
        """The load rate below which computing is faster than loading; None where computing costs nothing."""
        return break_even_bytes_per_second(bytes_per_token, float(self.median.coefficients[1]))


def break_even_bytes_per_second(bytes_per_token: float, seconds_per_computed_token: float) -> float | None:
    """The load rate at which loading a token takes as long as computing it."""
    return bytes_per_token / seconds_per_computed_token if seconds_per_computed_token > 0 else None


def model_ttft(
    tokens: FloatArray, ttft_seconds: FloatArray, queue_seconds: FloatArray, median: TtftFit | None = None
) -> TtftModel:
    """Fit requests with `tokens` (n, 3) by ORIGINS; times are (n,) and finite, TTFT above its queue time.

    `median` is the fit of the same requests where it is known already.
    """
    service = ttft_seconds - queue_seconds
    if len(service) <= len(ORIGINS) + 1:
        nothing = np.zeros(len(ORIGINS) + 1)
        few = (f"{len(service)} requests are too few to fit anything",)
        return TtftModel(tokens, service, TtftFit(nothing, 0.0), nothing, nothing, few)
    if median is None:
        median = fit_ttft(tokens, service)
    spread = TWO_SIDED_95 * _standard_errors(tokens, service, median)
    return TtftModel(
        tokens=tokens,
        service_seconds=service,
        median=median,
        low=np.maximum(median.coefficients - spread, 0.0),
        high=median.coefficients + spread,
        problems=tuple(_problems(tokens, ttft_seconds, queue_seconds, median)),
    )


def _problems(
    tokens: FloatArray, ttft_seconds: FloatArray, queue_seconds: FloatArray, median: TtftFit
) -> list[str]:
    problems = []
    if len(tokens) < FEWEST_REQUESTS:
        problems.append(f"{len(tokens)} requests, and {FEWEST_REQUESTS} are needed")
    loads = np.count_nonzero(tokens, axis=0)
    problems += [
        f"{count} requests have {origin} tokens, and {FEWEST_LOADS} are needed"
        for origin, count in zip(ORIGINS, loads.tolist(), strict=True)
        if 0 < count < FEWEST_LOADS
    ]
    if _condition(tokens[:, loads > 0]) > MOST_CONDITION:
        problems.append("tokens of two origins rise and fall together, so their costs cannot be told apart")
    if median.error_ratio > MOST_ERROR_RATIO:
        problems.append(f"half of the requests are off by more than {median.error_ratio:.0%}")
    waiting = float(np.median(queue_seconds / ttft_seconds))
    if waiting > MOST_QUEUE_SHARE:
        problems.append(f"the median request waits {waiting:.0%} of its TTFT in the queue")
    return problems


def _condition(tokens: FloatArray) -> float:
    design = np.column_stack((np.ones(len(tokens)), tokens))
    return float(np.linalg.cond(design / np.linalg.norm(design, axis=0)))


def _standard_errors(tokens: FloatArray, seconds: FloatArray, fit: TtftFit) -> FloatArray:
    """How far each coefficient may be off: (4,). One that the fit left out has no error.

    For a median line through weighted rows X that is the root of the diagonal of the inverse of X'X, over
    2 f, f being the density of the residuals at the line (Koenker, Quantile Regression, 3.2).
    """
    design = np.column_stack((np.ones(len(tokens)), tokens))
    predicted = fit.seconds(tokens)
    rows = design / predicted[:, None]
    residual = seconds / predicted - 1
    kept = fit.coefficients > 0
    if not kept.any():
        return np.zeros(design.shape[1])
    middle = np.quantile(residual, (0.4, 0.6))
    density = 0.2 / max(float(middle[1] - middle[0]), 1e-12)
    scale = np.linalg.norm(rows[:, kept], axis=0)
    inverse = np.linalg.pinv((rows[:, kept] / scale).T @ (rows[:, kept] / scale))
    errors = np.zeros(design.shape[1])
    errors[kept] = np.sqrt(np.diag(inverse)) / scale / (2 * density)
    return errors
