"""Why the window's tokens were computed: causes, what each took, and the room that would have helped."""

from __future__ import annotations

from collections.abc import Iterator

from tierscope.advice.document import Finding, FindingKind
from tierscope.advice.explain import MissCauses, misses_of
from tierscope.advice.history import History
from tierscope.advice.sizing.latency import ttft_model
from tierscope.advice.thresholds import SMALLEST_MISS_SHARE
from tierscope.analytics.misses import Cause
from tierscope.domain.deployment import Deployment
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes, format_seconds
from tierscope.domain.window import Evidence

REMEDY = {
    Cause.COMPULSORY: "nothing keeps what was never seen",
    Cause.CAPACITY_L0: "more room in L0",
    Cause.CAPACITY_L1: "more room in L1",
    Cause.CAPACITY_L2: "more room in L2",
    Cause.ROUTING: "a router that finds the replica that has it",
    Cause.ISOLATION: "one hash seed on all replicas",
    Cause.GRANULARITY: "smaller chunks, or saving partial ones",
    Cause.FAILURE: "find what refuses stores or fails to load",
    Cause.EXPIRY: "a longer time to live in the pool",
}


def miss_findings(evidence: Evidence, deployment: Deployment) -> Iterator[Finding]:
    """One finding with every cause of a share worth telling, the largest first; none without causes."""
    first = History(evidence.window.prompt).first_measured
    misses = misses_of(evidence, deployment, first, ttft_model(evidence.window, first))
    computed = sum((misses.causes or {}).values())
    if misses.causes is None or not computed:
        return
    ordered = sorted(misses.causes.items(), key=lambda row: -row[1])
    told = [(cause, tokens) for cause, tokens in ordered if tokens >= SMALLEST_MISS_SHARE * computed]
    yield Finding(
        FindingKind.MISS_CAUSES,
        Severity.INFO,
        "Why tokens were computed",
        f"Of {computed:,} computed tokens, {'; '.join(_share(*row, computed, misses) for row in told)}."
        + _room(misses, computed),
        "; ".join(f"{cause.value}: {REMEDY[cause]}" for cause, _ in told),
    )


def _share(cause: Cause, tokens: int, computed: int, misses: MissCauses) -> str:
    seconds = misses.seconds
    took = "" if seconds is None else f" ({format_seconds(seconds[cause])} of TTFT{_money(cause, misses)})"
    return f"{tokens / computed:.1%} {cause.value}{took}"


def _money(cause: Cause, misses: MissCauses) -> str:
    return "" if misses.money is None else f", {misses.money[cause]:.2f} {misses.currency}"


def _room(misses: MissCauses, computed: int) -> str:
    """For each tier, the steps of more room in each holder and what they would have hit altogether."""
    steps: dict[Tier, list[str]] = {}
    hit: dict[Tier, int] = {}
    for room in misses.room:
        hit[room.tier] = hit.get(room.tier, 0) + room.tokens
        if room.tokens >= SMALLEST_MISS_SHARE * computed:
            share = f"{hit[room.tier] / computed:.1%} with {format_bytes(room.extra_bytes)} more"
            steps.setdefault(room.tier, []).append(share)
    return "".join(f" Larger {tier.value.upper()}: {', '.join(said)}." for tier, said in steps.items())
