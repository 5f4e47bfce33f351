"""The choices a person has: combinations that none beats in TTFT and cost, and where more hardly pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tierscope.advice.document import Alternative
from tierscope.advice.outcome import Outlook
from tierscope.advice.sizing.cost import cost_per_hour
from tierscope.advice.sizing.joint import Candidate
from tierscope.advice.thresholds import MOST_ALTERNATIVES, TTFT_TIE
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray


def front_of(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The combinations that no other beats in TTFT and cost, dearer and faster one after the other.

    One that is faster by less than can be told is left out. Empty where TTFT or cost is not known.
    """
    known = [one for one in candidates if one.ttft_seconds is not None and one.cost is not None]
    front: list[Candidate] = []
    for one in sorted(known, key=lambda each: (each.cost, each.ttft_seconds, each.held_bytes)):
        if not front or (one.ttft_seconds or 0.0) < (1 - TTFT_TIE) * (front[-1].ttft_seconds or 0.0):
            front.append(one)
    return front


def knee_of(costs: FloatArray, seconds: FloatArray) -> int | None:
    """Index of the point of a front (k,) farthest below the line through its ends; None for fewer than three.

    Both axes are scaled to the front's own range, so that neither unit counts for more.

    >>> knee_of(np.array([1.0, 2.0, 3.0, 9.0]), np.array([9.0, 3.0, 2.0, 1.0]))
    1
    """
    if len(costs) < 3:
        return None
    x = (costs - costs[0]) / (costs[-1] - costs[0])
    y = (seconds - seconds[-1]) / (seconds[0] - seconds[-1])
    return int(np.argmax(1 - x - y))


def priced_alternatives(outlook: Outlook, candidates: Sequence[Candidate]) -> tuple[Alternative, ...]:
    """The front with every number and its interval, thinned to what a person compares; the knee is named."""
    front = front_of(candidates)
    costs = np.array([one.cost for one in front], dtype=np.float64)
    knee = knee_of(costs, np.array([one.ttft_seconds for one in front], dtype=np.float64))
    kept = np.unique(np.linspace(0, len(front) - 1, min(len(front), MOST_ALTERNATIVES)).round()).astype(int)
    places = sorted({*kept.tolist(), *(() if knee is None else (knee,))})
    return tuple(_alternative(outlook, front[place], knee=place == knee) for place in places)


def _alternative(outlook: Outlook, one: Candidate, *, knee: bool) -> Alternative:
    then = replace(outlook, study=one.start.of(outlook.study))
    split = then.study.split(one.sizes)
    predicted = then.predicted(split, cost_per_hour(outlook.study.deployment, one.sizes))
    return Alternative(
        target=None,
        capacity_bytes={tier: one.sizes[tier] for tier in Tier if tier in one.sizes},
        engine=dict(one.start.arguments),
        hit_ratio=predicted.hit_ratio.total,
        ttft_p50_seconds=predicted.ttft_p50_seconds,
        ttft_p90_seconds=predicted.ttft_p90_seconds,
        cost_per_hour=predicted.cost_per_hour,
        is_knee=knee,
    )
