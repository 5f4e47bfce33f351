"""What earlier advice was off by, and how much wider the next intervals are for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierscope.advice.compared import Compared, Observed
from tierscope.advice.predictions import Estimate, HitRatios, Predicted, Unwidened
from tierscope.advice.widening import HitRatioWidening, OutcomeSummary

COVERAGE = 0.95
"""The share of predictions that intervals are to hold: that of every interval of the document."""


@dataclass(frozen=True, slots=True)
class Learned:
    """How much wider than without outcomes intervals are: hit ratios by tier and in total, TTFT as a ratio.

    0 everywhere without outcomes, and never less: what came out right makes nobody surer of the next change.
    """

    compared: int = 0
    missed: int = 0
    l0: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    total: float = 0.0
    ttft_ratio: float = 0.0

    @property
    def hit_ratio(self) -> HitRatioWidening:
        """What is added on both sides of l0, l1, l2 and their sum."""
        return HitRatioWidening(self.l0, self.l1, self.l2, self.total)

    def ttft(self, estimate: Estimate) -> Estimate:
        """The same time with an interval that is wider on both sides."""
        factor = 1 + self.ttft_ratio
        return Estimate(estimate.value, estimate.low / factor, estimate.high * factor)

    def widened(self, plain: Predicted) -> Predicted:
        """The same prediction with wider intervals, and what they were before beside them."""
        if not any((self.l0, self.l1, self.l2, self.total, self.ttft_ratio)):
            return plain
        hits = plain.hit_ratio
        p50, p90, mean = (
            one and self.ttft(one)
            for one in (plain.ttft_p50_seconds, plain.ttft_p90_seconds, plain.ttft_mean_seconds)
        )
        return Predicted(
            HitRatios(
                _wider(hits.l0, self.l0),
                _wider(hits.l1, self.l1),
                _wider(hits.l2, self.l2),
                _wider(hits.total, self.total),
            ),
            p50,
            p90,
            plain.cost_per_hour,
            mean,
            Unwidened(hits, plain.ttft_p50_seconds, plain.ttft_p90_seconds, plain.ttft_mean_seconds),
        )

    def summary(self) -> OutcomeSummary | None:
        """What the document says of it; None where nothing was compared."""
        if not self.compared:
            return None
        return OutcomeSummary(self.compared, self.missed, self.hit_ratio, self.ttft_ratio)


UNTRIED = Learned()
"""No change was compared yet."""


def learned_from(earlier: Iterable[Compared]) -> Learned:
    """Make the next intervals so wide that earlier ones, made as wide, had held 95 % of what came.

    Split conformal prediction: of n distances between what came and the interval as it was before any
    outcome, the one of rank ceil((n + 1) 0.95) is added. Of fewer than 19 there is no such rank; then it is
    the largest. (Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005, section 2.2.)
    """
    compared = [one for one in earlier if one.observed is not None]
    ratios = {
        name: _rank([distance for one in compared if (distance := _hit_distance(one, name)) is not None])
        for name in ("l0", "l1", "l2", "total")
    }
    times = [distance for one in compared if (distance := _ttft_distance(one)) is not None]
    missed = sum(_is_outside(one) for one in compared)
    return Learned(len(compared), missed, **ratios, ttft_ratio=_rank(times))


def _rank(distances: Sequence[float]) -> float:
    """The distance that 95 % of all, and of one more, are not above; 0 at least."""
    if not distances:
        return 0.0
    rank = min(math.ceil((len(distances) + 1) * COVERAGE), len(distances))
    return max(sorted(distances)[rank - 1], 0.0)


def _wider(share: Estimate, by: float) -> Estimate:
    """The same share with an interval that is wider on both sides, inside 0 to 1."""
    return Estimate(share.value, max(share.low - by, 0.0), min(share.high + by, 1.0))


def _said(one: Compared) -> Predicted | Unwidened:
    """What was predicted, as it was without outcomes.

    From the wider interval it cannot be told: an end that lies at 0 or 1 may have been anywhere up to there.
    """
    return one.predicted.before_outcomes or one.predicted


def _hit_distance(one: Compared, name: str) -> float | None:
    """How far outside the interval a share came: negative inside."""
    assert one.observed is not None
    came = one.observed.hit_ratio if name == "total" else getattr(one.observed, name)
    if came is None:
        return None
    said: Estimate = getattr(_said(one).hit_ratio, name)
    return max(said.low - came, came - said.high)


def _ttft_distance(one: Compared) -> float | None:
    """By which ratio the farthest of the times was outside its interval."""
    pairs = _times(_said(one), one.observed)
    return max(max(said.low / came, came / said.high) for said, came in pairs) - 1 if pairs else None


def _times(said: Predicted | Unwidened, came: Observed | None) -> list[tuple[Estimate, float]]:
    assert came is not None
    return [
        (estimate, seconds)
        for estimate, seconds in (
            (said.ttft_mean_seconds, came.ttft_mean_seconds),
            (said.ttft_p50_seconds, came.ttft_p50_seconds),
            (said.ttft_p90_seconds, came.ttft_p90_seconds),
        )
        if estimate is not None and seconds is not None and seconds > 0
    ]


def _is_outside(one: Compared) -> bool:
    """Whether what came lay outside the interval that was given, in the total or any time."""
    assert one.observed is not None
    pairs = [(one.predicted.hit_ratio.total, one.observed.hit_ratio), *_times(one.predicted, one.observed)]
    return not all(said.low <= came <= said.high for said, came in pairs)
