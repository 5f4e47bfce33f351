"""A regression in words: who, how much, since when, and what to do; and as a document."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import JsonValue

from tierscope.analytics.regression.attribution import Cause, Reason
from tierscope.analytics.regression.detector import Regression
from tierscope.analytics.regression.endpoint import Found
from tierscope.analytics.regression.groups import Group

MANY = 3.0
"""From here on a ratio is told as times, not as a percentage."""

DO: dict[tuple[Cause, Reason], str] = {
    (
        Cause.TIER_SHARE,
        Reason.EVICTIONS,
    ): "give the tier more room, or undo what took it (`tierscope recommend`)",
    (Cause.TIER_SHARE, Reason.POOL_FULL): "make room in the pool: a time to live, a clean-up, more workers",
    (Cause.TIER_SHARE, Reason.ROUTING): "compare the router's settings with those before, and go back",
    (
        Cause.TIER_SHARE,
        Reason.SEED,
    ): "give all replicas one PYTHONHASHSEED and one chunk size, and restart them",
    (Cause.TIER_SHARE, Reason.WORKER_LOST): "bring the pool's lost worker back",
    (Cause.TIER_SPEED, Reason.SLOW): "look at the tier's disks, network and neighbours",
    (Cause.TIER_SPEED, Reason.WORKER_LOST): "bring the pool's lost worker back: the others carry its load",
    (Cause.QUEUE, Reason.NONE): "add replicas, or balance their load",
    (Cause.ENGINE, Reason.NONE): "compare engine release, arguments, clocks and neighbours with those before",
}
"""What to do first, by cause and reason."""


def who(regression: Regression) -> str:
    """The guilty part in a few words."""
    found = regression.attribution
    tier = found.tier.upper() if found.tier is not None else ""
    match found.cause:
        case Cause.TIER_SHARE:
            return f"{tier} serves {found.factor:.0%} of what it usually would ({_why(found.reason)})"
        case Cause.TIER_SPEED:
            return f"loads from {tier} take {found.factor:.1f} times as long ({_why(found.reason)})"
        case Cause.QUEUE:
            return f"requests queue {found.parts[Cause.QUEUE]:.3g} s longer"
        case Cause.ENGINE:
            return f"engines take {found.factor:.2f} times as long for the same tokens"
        case Cause.MIX:
            return "prompts are longer or repeat less"


def sentence(regression: Regression, endpoint: str) -> str:
    """One sentence: who did it, by how much, since when, what to do."""
    at = since(regression)
    rollout = ", after a rollout" if regression.rollout_unix_seconds is not None else ""
    found = regression.attribution
    todo = DO.get((found.cause, found.reason), "see what each part adds to TTFT")
    return (
        f"TTFT of {endpoint} is {_how_much(regression.ratio)} what its prompts explain "
        f"({regression.extra_seconds:.3g} s a request) since {at}{rollout}, because {who(regression)}: "
        f"{todo}."
    )


def since(regression: Regression) -> str:
    """When it began, to the minute, in UTC."""
    return datetime.fromtimestamp(regression.since_unix_seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def named(endpoint: str, group: Group, *, alone: bool) -> str:
    """An endpoint's name with the group that is meant, unless it is `alone` there."""
    if alone:
        return endpoint
    return f"{endpoint} ({group.model}{f' on {group.workload}' if group.workload else ''})"


def document(found_of: Found, endpoint: str, *, alone: bool) -> dict[str, JsonValue]:
    """As JSON; `parts` are seconds a request by cause."""
    group, regression = found_of
    found = regression.attribution
    return {
        "model": group.model,
        "workload": group.workload,
        "since": since(regression),
        "since_unix_seconds": regression.since_unix_seconds,
        "found_unix_seconds": regression.found_unix_seconds,
        "requests": regression.requests,
        "ratio": round(regression.ratio, 4),
        "extra_seconds": round(regression.extra_seconds, 4),
        "cause": found.cause.value,
        "tier": None if found.tier is None else found.tier.value,
        "reason": found.reason.value or None,
        "factor": round(found.factor, 3),
        "parts": {cause.value: round(seconds, 4) for cause, seconds in found.parts.items()},
        "rollout_unix_seconds": regression.rollout_unix_seconds,
        "sentence": sentence(regression, named(endpoint, group, alone=alone)),
    }


def _how_much(ratio: float) -> str:
    return f"{ratio - 1:.0%} above" if ratio < MANY else f"{ratio:.0f} times"


def _why(reason: Reason) -> str:
    return {
        Reason.EVICTIONS: "it evicts more",
        Reason.POOL_FULL: "the pool is full",
        Reason.ROUTING: "prompts reach other engines than before",
        Reason.SEED: "replicas no longer find each other's chunks",
        Reason.WORKER_LOST: "the pool has shrunk",
        Reason.SLOW: "it is slow",
        Reason.NONE: "reason not known",
    }[reason]
