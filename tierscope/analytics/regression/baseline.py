"""What was usual: how long requests took for their tokens, and which tiers served what was seen before.

Scores compare like with like: a request's residual is ranked among the baseline's of about the same expected
TTFT, and the rank becomes a normal score. So neither outliers nor noise that grows with the prompt count for
more than they should, and a prompt longer than any in the baseline says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.observations import Observations, cost_columns
from tierscope.analytics.ttft import TtftFit, fit_ttft
from tierscope.domain.trace import FloatArray

BINS = 6
WINDOW_REQUESTS = 50
"""Requests whose tier shares are looked at together; also the span over which noise is checked for memory."""
OUTSIDE_FACTOR = 1.25
"""Expected times this far beyond the baseline's are not compared."""
LEAST_SPREAD = 0.005
"""Log ratios of windows that vary less than this are taken to vary this much."""


class UsualShares(NamedTuple):
    """Share of reusable tokens that L0, L1 and L2 serve: (3,), of those last here, and of those elsewhere."""

    here: FloatArray
    elsewhere: FloatArray
    affinity: float
    """Share of the reusable tokens that were on this engine last."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A calibrated past. `minimum_effect_score` is what the smallest effect worth an alarm does to scores."""

    past: Observations
    fit: TtftFit
    usual_queue_seconds: float
    edges: FloatArray
    residuals: tuple[FloatArray, ...]
    scale: float
    """Scores are divided by this: more than 1 where neighbouring requests share their luck."""
    minimum_effect_score: float
    shares: UsualShares
    share_centre: float
    share_spread: float
    share_windows: int
    has_reuse: bool

    def expected_seconds(self, seen: Observations) -> FloatArray:
        """TTFT as the baseline would have it, for the tokens as they were served."""
        return self.fit.seconds(seen.tokens()) + self.usual_queue_seconds

    def scores(self, seen: Observations) -> FloatArray:
        """Normal scores of the requests' TTFT; NaN where the baseline has nothing alike."""
        expected = self.expected_seconds(seen)
        return self._ranked(np.log(seen.ttft_seconds / expected), expected) / self.scale

    def usual_seconds(self, seen: Observations, *, affinity: float | None) -> FloatArray:
        """TTFT had the tiers served what they usually do of what could be reused.

        With an `affinity` reusable tokens are where they usually are; without, where they really were.
        """
        if affinity is None:
            here, elsewhere = seen.reusable_here, seen.reusable_elsewhere
        else:
            here, elsewhere = affinity * seen.reusable, (1 - affinity) * seen.reusable
        served = np.outer(here, self.shares.here) + np.outer(elsewhere, self.shares.elsewhere)
        computed = np.maximum(seen.prompt - served.sum(axis=1), 1.0)
        columns = cost_columns(computed, served[:, 0], served[:, 1], served[:, 2])
        return self.fit.seconds(columns) + self.usual_queue_seconds

    def share_scores(self, seen: Observations) -> FloatArray:
        """Normal scores of whole windows: what was served, against what usually would have been."""
        ratios = _share_ratios(self, seen)
        return np.clip((ratios - self.share_centre) / self.share_spread, -4, 4)

    def _ranked(self, residuals: FloatArray, expected: FloatArray) -> FloatArray:
        scores = np.full(len(expected), np.nan)
        bins = np.searchsorted(self.edges[1:-1], expected, side="right")
        inside = (expected >= self.edges[0] / OUTSIDE_FACTOR) & (expected <= self.edges[-1] * OUTSIDE_FACTOR)
        for number, known in enumerate(self.residuals):
            of_bin = inside & (bins == number)
            rank = np.searchsorted(known, residuals[of_bin], side="left")
            scores[of_bin] = _normal_scores(len(known))[rank]
        return scores


def calibrate(past: Observations, minimum_effect: float) -> Baseline:
    """Learn from requests that were well; a few hundred at least. `minimum_effect` is a ratio such as 1.1."""
    fit = fit_ttft(past.tokens(), np.maximum(past.ttft_seconds - past.queue_seconds, 1e-6))
    queue = float(np.median(past.queue_seconds))
    expected = fit.seconds(past.tokens()) + queue
    residuals = np.log(past.ttft_seconds / expected)
    edges = np.quantile(expected, np.linspace(0, 1, BINS + 1))
    bins = np.searchsorted(edges[1:-1], expected, side="right")
    by_bin = tuple(np.sort(residuals[bins == number]) for number in range(BINS))
    shares = _usual_shares(past)
    raw = Baseline(
        past, fit, queue, edges, by_bin, 1.0, 0.0, shares, 0.0, 1.0, 0, bool(past.reusable.sum() > 0)
    )
    scores = raw._ranked(residuals, expected)  # noqa: SLF001 - the baseline under construction
    slower = raw._ranked(residuals + np.log(minimum_effect), expected)  # noqa: SLF001
    scale = _memory(scores)
    ratios = _share_ratios(raw, past)
    spread = max(LEAST_SPREAD, _robust_spread(ratios) * _memory(ratios, 4)) if len(ratios) else 1.0
    return Baseline(
        past, fit, queue, edges, by_bin, scale,
        float(np.nanmean(slower - scores)) / scale,
        shares,
        float(np.median(ratios)) if len(ratios) else 0.0,
        spread,
        len(ratios),
        raw.has_reuse,
    )  # fmt: skip


def _share_ratios(baseline: Baseline, seen: Observations) -> FloatArray:
    whole = len(seen.prompt) // WINDOW_REQUESTS * WINDOW_REQUESTS
    seen = seen.take(slice(0, whole))
    actual = baseline.expected_seconds(seen).reshape(-1, WINDOW_REQUESTS).sum(axis=1)
    usual = baseline.usual_seconds(seen, affinity=baseline.shares.affinity)
    ratios: FloatArray = np.log(actual / usual.reshape(-1, WINDOW_REQUESTS).sum(axis=1))
    return ratios


def _usual_shares(past: Observations) -> UsualShares:
    """By least squares on tokens; a tier cannot serve less than none or more than all."""
    reusable = np.column_stack((past.reusable_here, past.reusable_elsewhere))
    served = np.column_stack((past.l0, past.l1 + past.external, past.l2))
    found = np.clip(np.linalg.lstsq(reusable, served, rcond=None)[0], 0, 1)
    whole = float(past.reusable.sum())
    return UsualShares(found[0], found[1], float(past.reusable_here.sum()) / whole if whole else 1.0)


def _memory(values: FloatArray, block: int = WINDOW_REQUESTS) -> float:
    """How much wider sums of neighbours spread than independent values would: 1 or more."""
    known = values[np.isfinite(values)]
    blocks = known[: len(known) // block * block].reshape(-1, block)
    if len(blocks) < 8 or known.std() == 0:
        return 1.0
    return max(1.0, float(blocks.mean(axis=1).std() * np.sqrt(block) / known.std()))


@lru_cache(maxsize=64)
def _normal_scores(known: int) -> FloatArray:
    """What each rank among so many known values is worth: (known + 1,)."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank + 0.5) / (known + 1)) for rank in range(known + 1)])


def _robust_spread(values: FloatArray) -> float:
    low, high = np.quantile(values, (0.16, 0.84))
    return float(high - low) / 2
