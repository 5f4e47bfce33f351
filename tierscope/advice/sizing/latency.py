"""What other sizes would do to TTFT, by re-pricing the recorded requests; absent where it cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tierscope.advice.predictions import Estimate
from tierscope.advice.thresholds import (
    MIN_TTFT_RECORDS,
    MIN_TTFT_TIER_RECORDS,
    MOST_TTFT_ERROR_RATIO,
    MOST_TTFT_RECORDS,
    RESAMPLES,
    SLICES,
    SMALLEST_TTFT_SHARE,
)
from tierscope.analytics.bootstrap import HIGH, LOW, resampled_quantiles, slice_draws, slice_sums
from tierscope.analytics.ttft import TtftFit, fit_ttft
from tierscope.domain.split import Split
from tierscope.domain.trace import FloatArray, Int64Array
from tierscope.domain.window import RequestWindow


class Prediction(NamedTuple):
    """TTFT at other sizes, or why it is not given."""

    p50: Estimate | None
    p90: Estimate | None
    mean: Estimate | None
    absent_because: str | None = None


@dataclass(frozen=True, slots=True)
class TtftModel:
    """A fit and the m requests it re-prices.

    `requests` (m,) index the window; `queue_seconds` and `noise` (m,) are each request's own queue time
    and its ratio of observed to fitted service time, both kept as they were. `columns` are the origins
    with a fitted cost; `error_ratio` is how far the first half's fit is off on the second half's median.
    `elsewhere` is what tokens would cost on other hardware, where that is asked about.
    """

    requests: Int64Array
    queue_seconds: FloatArray
    ttft_seconds: FloatArray
    noise: FloatArray
    prompt: Int64Array
    fit: TtftFit
    priced: tuple[str, ...]
    merged: bool
    error_ratio: float
    elsewhere: TtftFit | None = None

    def predict(self, now: Split, then: Split, rng: np.random.Generator) -> Prediction:
        """TTFT quantiles if the tiers served `then` instead of `now`, both modelled; (n,) each.

        The observed quantile is scaled by the modelled change, so that what the model leaves out cancels.
        """
        absent = self.absent_because(then)
        if absent is not None:
            return Prediction(None, None, None, absent)
        draws = np.vstack((np.ones(SLICES), slice_draws(SLICES, RESAMPLES, rng)))
        before, after = self._seconds(now, self.fit), self._seconds(then, self.elsewhere or self.fit)
        p50, p90 = (self._estimate(before, after, draws, q) for q in (0.5, 0.9))
        return Prediction(p50, p90, self._mean(before, after, draws[1:]))

    def absent_because(self, then: Split) -> str | None:
        """Why TTFT cannot be told if the tiers served `then`; None where it can."""
        unpriced = self._unpriced_share(then)
        return unpriced and f"too few requests were served from {unpriced} to price its tokens"

    def thinned(self, most: int) -> TtftModel:
        """The same model that re-prices at most so many requests, evenly spread."""
        if len(self.requests) <= most:
            return self
        kept = thinned(np.arange(len(self.requests)), most)
        return replace(
            self,
            requests=self.requests[kept],
            queue_seconds=self.queue_seconds[kept],
            ttft_seconds=self.ttft_seconds[kept],
            noise=self.noise[kept],
            prompt=self.prompt[kept],
        )

    def of_own_requests(self) -> TtftModel:
        """The same model for splits (m,) of its own m requests alone."""
        return replace(self, requests=np.arange(len(self.requests)))

    def scale(self, now: Split, q: float) -> float:
        """What the observed q-quantile is of the modelled one."""
        return _quantile(self.ttft_seconds, q) / _quantile(self._seconds(now, self.fit), q)

    def modelled(self, then: Split, q: float) -> float | None:
        """The modelled q-quantile without its interval; None where a tier's tokens have no cost."""
        if self._unpriced_share(then):
            return None
        return _quantile(self._seconds(then, self.elsewhere or self.fit), q)

    def at_speeds(self, slower: Sequence[float]) -> TtftModel:
        """The same requests where a token of each priced origin takes so many times as long."""
        factors = np.array([1.0, *slower])
        return replace(self, elsewhere=TtftFit(self.fit.coefficients * factors, self.fit.error_ratio))

    def _estimate(self, before: FloatArray, after: FloatArray, draws: FloatArray, q: float) -> Estimate:
        """The observed quantile, scaled; of `draws` the first is the history as it was."""
        scaled = self._scaled(before, after, draws, q)
        own = holdout_shift(self.ttft_seconds, lambda seconds: _quantile(seconds, q))
        return self._allowed(float(scaled[0]), scaled[1:], own)

    def _mean(self, before: FloatArray, after: FloatArray, draws: FloatArray) -> Estimate:
        """The observed mean, scaled like the quantiles by the modelled change."""
        seconds = np.column_stack((self.ttft_seconds, before, after))
        slices = slice_sums(seconds, np.ones(len(seconds), dtype=np.int64), SLICES)
        observed, was, then = slices.ratio
        resampled = draws @ slices.hits
        means = resampled[:, 0] / (draws @ slices.total) * resampled[:, 2] / resampled[:, 1]
        own = holdout_shift(self.ttft_seconds, lambda seconds: float(seconds.mean()))
        return self._allowed(float(observed * then / was), means, own)

    def _allowed(self, value: float, resampled: FloatArray, own_error: float) -> Estimate:
        """An interval with what the fit or the past itself is off by, whichever is more, on both sides."""
        error = max(self.error_ratio, own_error)
        low, high = np.quantile(resampled, (LOW, HIGH))
        return Estimate(value, float(low * max(1 - error, 0)), float(high * (1 + error)))

    def _scaled(self, before: FloatArray, after: FloatArray, draws: FloatArray, q: float) -> FloatArray:
        observed = resampled_quantiles(self.ttft_seconds, draws, q)
        change: FloatArray = resampled_quantiles(after, draws, q) / resampled_quantiles(before, draws, q)
        return observed * change

    def _seconds(self, split: Split, fit: TtftFit) -> FloatArray:
        tokens = _tokens(split, self.requests, self.merged)
        priced = np.column_stack([tokens[name] for name in self.priced])
        return self.queue_seconds + self.noise * fit.seconds(priced)

    def _unpriced_share(self, split: Split) -> str | None:
        total = max(int(self.prompt.sum()), 1)
        for name, column in _tokens(split, self.requests, self.merged).items():
            if name not in self.priced and column.sum() / total > SMALLEST_TTFT_SHARE:
                return name
        return None


def ttft_model(window: RequestWindow, first: int) -> TtftModel | str:
    """Fit TTFT over requests `first`.. of a window; the reason in words where that cannot be trusted."""
    queue = np.nan_to_num(window.queue_seconds, nan=0.0)
    usable = np.isfinite(window.ttft_seconds) & (window.ttft_seconds > queue)
    requests = np.flatnonzero(usable[first:]) + first
    if len(requests) < MIN_TTFT_RECORDS:
        return f"{len(requests)} records have a TTFT and {MIN_TTFT_RECORDS} are needed"
    requests = thinned(requests, MOST_TTFT_RECORDS)
    merged = bool(window.external[first:].any())
    observed = Split(window.l0, window.l1 + window.external, window.l2, window.computed)
    tokens = _tokens(observed, requests, merged)
    priced = tuple(
        name for name, column in tokens.items() if np.count_nonzero(column) >= MIN_TTFT_TIER_RECORDS
    )
    design = np.column_stack([tokens[name] for name in priced]) if priced else np.zeros((len(requests), 0))
    service = window.ttft_seconds[requests] - queue[requests]
    fit = fit_ttft(design, service)
    if fit.error_ratio > MOST_TTFT_ERROR_RATIO:
        return f"tokens by tier explain TTFT only to {fit.error_ratio:.0%} for half of the requests"
    return TtftModel(
        requests=requests,
        queue_seconds=queue[requests],
        ttft_seconds=window.ttft_seconds[requests],
        noise=service / fit.seconds(design),
        prompt=window.prompt[requests],
        fit=fit,
        priced=priced,
        merged=merged,
        error_ratio=_holdout_error(design, service),
    )


def thinned(rows: Int64Array, most: int) -> Int64Array:
    """At most so many of some rows (n,), evenly spread."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _tokens(split: Split, requests: Int64Array, merged: bool) -> dict[str, FloatArray]:
    """Token columns by the name of what is priced; L1 and L2 are one where records do not tell them apart."""
    l1, l2 = split.l1[requests].astype(np.float64), split.l2[requests].astype(np.float64)
    loaded = {"L1 or L2": l1 + l2} if merged else {"L1": l1, "L2": l2}
    return {"computed": split.computed[requests].astype(np.float64), **loaded}


def _holdout_error(design: FloatArray, service: FloatArray) -> float:
    """How far the first half's fit misses the second half's median, as a ratio."""
    half = len(service) // 2
    predicted = fit_ttft(design[:half], service[:half]).seconds(design[half:])
    return float(abs(np.median(service[half:] / predicted) - 1))


def holdout_shift(ttft_seconds: FloatArray, of: Callable[[FloatArray], float]) -> float:
    """How far a figure of the first half is from that of the second half, as a ratio."""
    half = len(ttft_seconds) // 2
    return abs(of(ttft_seconds[:half]) / of(ttft_seconds[half:]) - 1)


def _quantile(values: FloatArray, q: float) -> float:
    return float(np.quantile(values, q, method="inverted_cdf"))
