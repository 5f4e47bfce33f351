"""What became of changes: what was predicted of a new configuration, and what then happened.

Advice counts as followed if a new configuration has what was advised last before it, and the one before
that had not. Other changes of sizes are foretold from the requests before them. A prediction holds once the
caches are warm, so the first hour in force is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np

from tierscope.advice.compared import Compared, Observed
from tierscope.advice.document import Change, ChangeKind, Recommendation, parse_recommendation, utc
from tierscope.advice.foretold import SAME_SIZE_RATIO, EvidenceReader, Foretell, Foretold, resized
from tierscope.advice.predictions import Predicted
from tierscope.advice.sizing.engine_patches import ENGINE_TARGET, engine_arguments
from tierscope.domain.deployment import Deployment, DeploymentSince
from tierscope.domain.errors import BadInput
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow, TimeSpan

WARM_SECONDS = 3600.0
"""From when a change is in force until it is measured: caches start empty, and sizes are for full ones."""
MOST_SECONDS = 6 * 3600.0
"""Longest span that is measured, from when the caches are warm."""
FEWEST_REQUESTS = 100
"""Below that a hit ratio is mostly noise."""


Measure = Callable[[TimeSpan], Observed | None]
"""What was observed in a span; None where no request was served in it."""


class Records(EvidenceReader, Protocol):
    """What is kept of an endpoint, as far as outcomes are told from it."""

    def recommendation_history(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[bytes, ...]:
        """Documents of a span."""
        ...

    def deployments(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[DeploymentSince, ...]:
        """Configurations that were in force in a span."""
        ...

    def window(self, namespace: str, endpoint: str, span: TimeSpan) -> RequestWindow:
        """Requests of a span."""
        ...


def outcomes_of(
    records: Records, who: tuple[str, str], span: TimeSpan, now_unix_seconds: float, foretold: Foretold
) -> tuple[Compared, ...]:
    """Read advice and configurations of a span, and compare, newest first."""
    configurations = records.deployments(*who, span)
    if len(configurations) < 2:
        return ()

    def measure(measured: TimeSpan) -> Observed | None:
        return observed_in(records.window(*who, measured))

    advice = [one for one in map(_readable, records.recommendation_history(*who, span)) if one is not None]
    return comparisons(advice, configurations, measure, now_unix_seconds, foretold.of(records, who))


def _readable(body: bytes) -> Recommendation | None:
    """A document of this release; others cannot be compared."""
    try:
        return parse_recommendation(json.loads(body))
    except (BadInput, ValueError):
        return None


def comparisons(
    advice: Sequence[Recommendation],
    configurations: Sequence[DeploymentSince],
    measure: Measure,
    now_unix_seconds: float,
    foretell: Foretell,
) -> tuple[Compared, ...]:
    """Compare what was said of each change with what became of it, newest first. All come in any order."""
    by_time = sorted(advice, key=lambda one: one.generated_at)
    in_force = sorted(configurations, key=lambda one: one.since_unix_seconds)
    found = []
    for place in range(len(in_force) - 1, 0, -1):
        before, after, following = in_force[place - 1], in_force[place], in_force[place + 1 :]
        until = following[0].since_unix_seconds if following else None
        said = _advised(by_time, before, after) or _foretold(before, after, foretell)
        if said is not None:
            found.append(_one(said, after, until, measure, now_unix_seconds))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Said:
    """What was said of a change before it came."""

    changes: tuple[str, ...]
    predicted: Predicted
    advised_at: datetime | None = None


def _advised(
    by_time: Sequence[Recommendation], before: DeploymentSince, after: DeploymentSince
) -> _Said | None:
    last = _last_before(by_time, after.since_unix_seconds)
    changes = () if last is None else tuple(_made(last, before.deployment, after.deployment))
    if last is None or not changes:
        return None
    ids = tuple(change.id for change in changes)
    return _Said(ids, changes[-1].predicted, last.generated_at)


def _foretold(before: DeploymentSince, after: DeploymentSince, foretell: Foretell) -> _Said | None:
    predicted = foretell(before, after)
    if predicted is None:
        return None
    tiers = resized(before.deployment, after.deployment)
    return _Said(tuple(f"{ChangeKind.TIER_SIZE.value}:{tier.value}" for tier in tiers), predicted)


def observed_in(window: RequestWindow) -> Observed | None:
    """Sum up a window; None where nobody asked."""
    totals = window.totals()
    if not totals.prompt:
        return None
    told = window.external.sum() == 0
    seconds = window.ttft_seconds[np.isfinite(window.ttft_seconds)]
    p50, p90 = (float(at) for at in np.quantile(seconds, (0.5, 0.9))) if len(seconds) else (None, None)
    mean = float(seconds.mean()) if len(seconds) else None
    return Observed(
        requests=window.requests,
        hit_ratio=1 - totals.computed / totals.prompt,
        l0=totals.l0 / totals.prompt,
        l1=totals.l1 / totals.prompt if told else None,
        l2=totals.l2 / totals.prompt if told else None,
        ttft_p50_seconds=p50,
        ttft_p90_seconds=p90,
        ttft_mean_seconds=mean,
    )


def _last_before(by_time: Sequence[Recommendation], at_unix_seconds: float) -> Recommendation | None:
    """The newest advice to change something; what says to change nothing is nothing to follow."""
    earlier = [one for one in by_time if one.changes and one.generated_at.timestamp() <= at_unix_seconds]
    return earlier[-1] if earlier else None


def _made(advice: Recommendation, before: Deployment, after: Deployment) -> Iterator[Change]:
    """The advised changes that came into force, as far as those before them in the list are in force too."""
    for change in advice.changes:
        if not _has(after, change):
            return
        if not _has(before, change):
            yield change


def _has(deployment: Deployment, change: Change) -> bool:
    """Whether a configuration has what a change leads to; kinds that it does not tell are never followed."""
    match change.kind:
        case ChangeKind.TIER_SIZE if change.target in set(Tier) and isinstance(change.to, float | int):
            tier = deployment.tier(Tier(change.target))
            return tier is not None and abs(tier.capacity_bytes / change.to - 1) <= SAME_SIZE_RATIO
        case ChangeKind.ROUTING:
            return deployment.routing.value == change.to
        case ChangeKind.REPLICAS:
            return deployment.replicas == change.to
        case ChangeKind.CONFIG if change.target == ENGINE_TARGET:
            wanted = dict(word.split("=", 1) for word in str(change.to).split())
            return engine_arguments(deployment, wanted) == change.to
        case _:
            return False


def _one(
    said: _Said,
    after: DeploymentSince,
    until: float | None,
    measure: Measure,
    now_unix_seconds: float,
) -> Compared:
    start, end = after.since_unix_seconds + WARM_SECONDS, now_unix_seconds if until is None else until
    observed = measure(TimeSpan(start, min(end, start + MOST_SECONDS))) if start < end else None
    absent = None
    if start >= end:
        absent = (
            f"it was in force for {max(end - after.since_unix_seconds, 0) / 60:.0f} minutes, and caches are "
        )
        absent += f"given {WARM_SECONDS / 60:.0f} to fill"
    elif observed is None or observed.requests < FEWEST_REQUESTS:
        requests = 0 if observed is None else observed.requests
        absent = f"{requests} requests were served since the caches filled, and {FEWEST_REQUESTS} are needed"
    predicted = said.predicted
    return Compared(
        advised_at=said.advised_at,
        changes=said.changes,
        in_force_since=utc(after.since_unix_seconds),
        in_force_until=None if until is None else utc(until),
        predicted=predicted,
        observed=observed if absent is None else None,
        kept=observed.hit_ratio >= predicted.hit_ratio.total.low if absent is None and observed else None,
        absent_because=absent,
    )
