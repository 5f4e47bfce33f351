"""What a person should know besides the advice: each with its numbers and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tierscope.advice.document import Finding, FindingKind, Missing
from tierscope.advice.selfcheck import SelfCheck
from tierscope.advice.sizing.one_tier import TierSizing
from tierscope.advice.study import UNLIMITED_BYTES, Study
from tierscope.advice.thresholds import (
    FULL_COMPLETENESS_RATIO,
    MIN_BLOCK_ACCESSES,
    MIN_COMPLETENESS_RATIO,
    MIN_REQUESTS,
    MODEL_ALLOWANCE,
)
from tierscope.analytics.drift import Shift
from tierscope.domain.deployment import Deployment
from tierscope.domain.events import SourceCoverage
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes, format_seconds
from tierscope.domain.window import RequestWindow


def traffic_findings(window: RequestWindow, missing: Iterable[Missing]) -> Iterator[Finding]:
    """Too few requests or block accesses in the window."""
    if window.requests >= MIN_REQUESTS and window.accesses >= MIN_BLOCK_ACCESSES:
        return
    waits = [part.wait_seconds for part in missing if part.wait_seconds is not None]
    wait = f" At the present rate that takes {format_seconds(max(waits))} more." if waits else ""
    yield Finding(
        FindingKind.LOW_TRAFFIC,
        Severity.INFO,
        "The window holds too little traffic to advise on",
        f"{window.requests} requests with {window.accesses} block accesses in "
        f"{format_seconds(window.span.seconds)}; {MIN_REQUESTS} and {MIN_BLOCK_ACCESSES} are needed.{wait}",
        "wait, or widen collector.advise_window_seconds",
    )


def completeness_findings(
    ratio: float | None, coverage: Iterable[SourceCoverage], window: RequestWindow, deployment: Deployment
) -> Iterator[Finding]:
    """Records that were lost on the way, and replicas that were never heard of."""
    heard = {engine.replica for engine in window.engines}
    silent = deployment.replicas - len(heard)
    if silent > 0 and window.requests:
        yield Finding(
            FindingKind.INCOMPLETE_EVENTS,
            Severity.WARNING,
            "Not every replica's requests are in the records",
            f"{len(heard)} of {deployment.replicas} replicas sent records in the window.",
            "check that each engine has its hook and is listed under exporter.engines",
        )
    if ratio is None or ratio >= FULL_COMPLETENESS_RATIO:
        return
    worst = sorted(coverage, key=lambda part: -(part.missing + part.undecodable))[:3]
    named = ", ".join(
        f"{p.source} lost {p.missing + p.undecodable}" for p in worst if p.missing + p.undecodable
    )
    yield Finding(
        FindingKind.INCOMPLETE_EVENTS,
        Severity.WARNING if ratio >= MIN_COMPLETENESS_RATIO else Severity.CRITICAL,
        "Part of the request records was lost",
        f"{ratio:.2%} of the records arrived ({named}).",
        "configure the replay addresses, enlarge the buffers, or find what restarts",
    )


def model_findings(check: SelfCheck) -> Iterator[Finding]:
    """Hits that the model cannot reproduce at today's sizes."""
    if not check.beyond_allowance:
        return
    compared = "; ".join(
        f"{d.tiers}: modelled {d.modelled:.1%}, observed {d.observed:.1%}" for d in check.beyond_allowance
    )
    distrusted = [tier.value.upper() for tier in (Tier.L1, Tier.L2) if not check.trusts(tier)]
    yield Finding(
        FindingKind.MODEL_DISAGREES,
        Severity.WARNING,
        "The cache model and the engines disagree on hits at today's sizes",
        f"Share of prompt tokens, {compared}. "
        + (
            f"No size of {' and '.join(distrusted)} is advised."
            if distrusted
            else "Intervals are wider for it."
        ),
        "check that hash seeds and chunk sizes are equal on all replicas, that the configured sizes are the "
        "real ones, that stores are not refused, and whether L2 reads are kept in L1",
    )


def drift_findings(shift: Shift, abstains: bool) -> Iterator[Finding]:
    """The last part of the window is unlike the part before it."""
    yield Finding(
        FindingKind.DRIFT,
        Severity.WARNING,
        "The workload has changed within the window",
        f"Hit ratios of the last quarter of the measured part differ by {shift.ratio:+.1%} "
        f"(p = {shift.p_value:.3f}). "
        + ("That is too much to predict from." if abstains else "Intervals are wider for it."),
        "wait until a whole window lies after the change",
    )


def dropped_load_findings(study: Study) -> Iterator[Finding]:
    """An L1 that drops what it loads from L2, where keeping it would serve clearly more."""
    if study.l1_keeps_loads and study.l1_is_known:
        return
    now = study.l1_share()
    keeping = replace(study, l1_keeps_loads=True).l1_share(UNLIMITED_BYTES)
    if keeping - now <= MODEL_ALLOWANCE:
        return
    what = "drops what it loads from L2" if study.l1_is_known else "may drop what it loads from L2"
    yield Finding(
        FindingKind.L1_DROPS_LOADS,
        Severity.WARNING,
        f"L1 {what}, so growing it helps little",
        f"L1 serves {now:.1%} of prompt tokens. An L1 that keeps its loads could serve up to {keeping:.1%}, "
        "which now come from L2 or are computed again.",
        "start the LMCache server with --l2-prefetch-policy retain and set l1_keeps_loads of the deployment; "
        "advice on its size follows from the records after that",
    )


def limit_findings(sizings: Iterable[TierSizing]) -> Iterator[Finding]:
    """Tiers whose limit keeps them from the target."""
    for sizing in sizings:
        if not sizing.limited:
            continue
        at_limit = sizing.ratio_at(sizing.chosen_bytes)
        yield Finding(
            FindingKind.LIMIT_BELOW_TARGET,
            Severity.INFO,
            f"{sizing.task.tier.value.upper()} cannot be made large enough for the target",
            f"The target of {sizing.goal_ratio:.1%} needs {format_bytes(sizing.wanted_bytes)}; at the most "
            f"that is allowed the hit ratio is {at_limit:.1%}.",
            "raise limit_bytes (more memory or disk), or lower objective.target",
        )
