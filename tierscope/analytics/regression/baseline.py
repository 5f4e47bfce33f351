"""What was usual: how long requests took for their tokens, and which tiers served what was seen before.

Scores compare like with like: a request's residual is ranked among the baseline's of about the same expected
TTFT, and the rank becomes a normal score. So neither outliers nor noise that grows with the prompt count for
more than they should, and a prompt longer than any in the baseline says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.observations import Observations, cost_columns
from tierscope.analytics.regression.shares import UsualShares, usual_shares
from tierscope.analytics.ttft import TtftFit, fit_ttft
from tierscope.domain.trace import FloatArray

BINS = 6
WINDOW_REQUESTS = 50
"""Requests whose tier shares are looked at together; also the span over which noise is checked for memory."""
OUTSIDE_FACTOR = 1.25
"""Expected times this far beyond the baseline's are not compared."""
QUARTERS = 4
LEAST_SPREAD = 0.02
"""Log ratios of windows that vary less are taken to vary this much: scores end at `MOST_SCORE`, and must get
there for the smallest effect that is looked for."""
MOST_SCORE = 4.0


class Usual(NamedTuple):
    """Log ratios of windows as the baseline has them: centre, spread of one, and how many there were."""

    centre: float = 0.0
    spread: float = 1.0
    windows: int = 0

    def scores(self, ratios: FloatArray) -> FloatArray:
        """Normal scores of log ratios."""
        found: FloatArray = np.clip((ratios - self.centre) / self.spread, -MOST_SCORE, MOST_SCORE)
        return found


NOT_KNOWN = Usual()


class Ratios(NamedTuple):
    """What whole windows cost, as log ratios: (windows,) each."""

    caches: FloatArray
    """As they were served, against what caches usually serve where the router sent them."""
    routing: FloatArray
    """Where the router sent them, against where it usually does."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A calibrated past. `minimum_effect_score` is what the smallest effect worth an alarm does to scores."""

    past: Observations
    fit: TtftFit
    usual_queue_seconds: float
    edges: FloatArray
    residuals: tuple[FloatArray, ...]
    shares: UsualShares
    has_reuse: bool
    scale: float = 1.0
    """Scores are divided by this: more than 1 where neighbouring requests share their luck."""
    minimum_effect_score: float = 0.0
    caches: Usual = NOT_KNOWN
    routing: Usual = NOT_KNOWN

    def expected_seconds(self, seen: Observations) -> FloatArray:
        """TTFT as the baseline would have it, for the tokens as they were served."""
        return self.fit.seconds(seen.tokens()) + self.usual_queue_seconds

    def scores(self, seen: Observations) -> FloatArray:
        """Normal scores of the requests' TTFT; NaN where the baseline has nothing alike."""
        expected = self.expected_seconds(seen)
        return self.ranked(np.log(seen.ttft_seconds / expected), expected) / self.scale

    def usual_seconds(self, seen: Observations, *, placed: bool) -> FloatArray:
        """TTFT had the tiers served what they usually do of what could be reused.

        With `placed` the caches alone are as usual, and requests are where they were sent; without, router
        and caches are.
        """
        served = self.shares.served(seen, placed=placed)
        computed = np.maximum(seen.prompt - served.sum(axis=1), 1.0)
        columns = cost_columns(computed, served[:, 0], served[:, 1], served[:, 2])
        return self.fit.seconds(columns) + self.usual_queue_seconds

    def ratios(self, seen: Observations) -> Ratios:
        """The cost of whole windows taken apart; what is left of the last one is not looked at."""
        seen = seen.take(slice(0, len(seen.prompt) // WINDOW_REQUESTS * WINDOW_REQUESTS))

        def total(seconds: FloatArray) -> FloatArray:
            found: FloatArray = seconds.reshape(-1, WINDOW_REQUESTS).sum(axis=1)
            return found

        placed = total(self.usual_seconds(seen, placed=True))
        usual = total(self.usual_seconds(seen, placed=False))
        return Ratios(np.log(total(self.expected_seconds(seen)) / placed), np.log(placed / usual))

    def ranked(self, residuals: FloatArray, expected: FloatArray) -> FloatArray:
        """Normal scores of log residuals among the baseline's of about the same expected seconds."""
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
    raw = Baseline(past, fit, queue, edges, by_bin, usual_shares(past), bool(past.reusable.sum() > 0))
    scores = raw.ranked(residuals, expected)
    slower = raw.ranked(residuals + np.log(minimum_effect), expected)
    scale = _memory(scores)
    caches, routing = (_usual(ratios) for ratios in _crossed(raw))
    return replace(
        raw,
        scale=scale,
        minimum_effect_score=float(np.nanmean(slower - scores)) / scale,
        caches=caches,
        routing=routing,
    )


def _crossed(raw: Baseline) -> Ratios:
    """Ratios of each quarter of the windows by the shares of the others: a fit fits itself too well."""
    windows = len(raw.past.prompt) // WINDOW_REQUESTS
    quarter = np.arange(windows * WINDOW_REQUESTS) // WINDOW_REQUESTS % QUARTERS
    found = Ratios(np.zeros(windows), np.zeros(windows))
    for number in range(min(QUARTERS, windows)):
        others = replace(raw, shares=usual_shares(raw.past.take(np.flatnonzero(quarter != number))))
        part = others.ratios(raw.past.take(np.flatnonzero(quarter == number)))
        for ratios, of_part in zip(found, part, strict=True):
            ratios[number::QUARTERS] = of_part
    return found


def _usual(ratios: FloatArray) -> Usual:
    if not len(ratios):
        return NOT_KNOWN
    spread = max(LEAST_SPREAD, _robust_spread(ratios) * _memory(ratios, 4))
    return Usual(float(np.median(ratios)), spread, len(ratios))


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
