"""The advice itself: from recorded requests and a deployment to one recommendation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from tierscope.advice import findings as say
from tierscope.advice.document import (
    Alternative,
    Change,
    Current,
    EvidenceSummary,
    Finding,
    InstanceChoice,
    Missing,
    Quantiles,
    Recommendation,
    Status,
    TierState,
    Window,
    utc,
)
from tierscope.advice.history import History
from tierscope.advice.holders import own_pools
from tierscope.advice.learned import UNTRIED, Learned
from tierscope.advice.name_findings import name_findings
from tierscope.advice.outcome import (
    Outlook,
    alternatives,
    change_for,
    curve_of,
    engine_change,
    l0_curve,
    sizes_of,
)
from tierscope.advice.readiness import SIZED_TIERS, missing_before_modelling, too_cold, too_uncertain
from tierscope.advice.readings import chunk_tokens, completeness_ratio, read_tiers
from tierscope.advice.selfcheck import SelfCheck, check_model
from tierscope.advice.sizing.aim import Aim, aim_findings, aimed
from tierscope.advice.sizing.cost import cost_per_hour
from tierscope.advice.sizing.engine import EngineStart
from tierscope.advice.sizing.forecast import forecasts
from tierscope.advice.sizing.front import priced_alternatives
from tierscope.advice.sizing.host_cache import staged_tokens
from tierscope.advice.sizing.instances import compared
from tierscope.advice.sizing.latency import ttft_model
from tierscope.advice.sizing.one_tier import SizingTask, TierSizing, Verdict, size_tier
from tierscope.advice.sizing.pool import eviction_findings, least_held_bytes
from tierscope.advice.sizing.recompute import SlowPool, recompute_findings, slow_pool
from tierscope.advice.study import Study, study_of
from tierscope.advice.thresholds import (
    DRIFT_LARGEST_SHIFT,
    DRIFT_LATE_SLICES,
    DRIFT_P_VALUE,
    DRIFT_PERMUTATIONS,
    DRIFT_SMALLEST_SHIFT,
    MODEL_ALLOWANCE,
    MODEL_LARGEST_DISAGREEMENT,
    SEED,
    STAGING_ROOM,
)
from tierscope.advice.wiring_findings import wiring_findings
from tierscope.analytics.bootstrap import Slices
from tierscope.analytics.drift import Shift, shift_of
from tierscope.domain.deployment import Deployment, Objective, ObjectiveKind, TtftQuantile
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence, RequestWindow


def recommend(
    evidence: Evidence,
    deployment: Deployment,
    *,
    now_unix_seconds: float,
    learned: Learned = UNTRIED,
) -> Recommendation:
    """Advise on the sizes of L1 and L2 from a deployment's own recorded requests.

    The smallest L1, then the smallest L2, is sought whose hit ratio, with the tiers above, is the
    objective's share of what an unlimited size would give; a smaller size is advised as readily as a
    larger one. Where evidence is short, incomplete, drifting or contradicts the model, the answer is
    `insufficient_evidence` with what is missing. What earlier advice was off by widens intervals. Pure:
    the same evidence gives the same document.
    """
    base = _without_model(evidence, deployment, now_unix_seconds)
    base = replace(base, evidence=replace(base.evidence, outcomes=learned.summary()))
    if base.evidence.missing:
        return base
    chunk = chunk_tokens(evidence)
    assert chunk is not None
    study = study_of(evidence, deployment, read_tiers(evidence, deployment), chunk)
    return _advise(base, _analyse(study, evidence, learned), evidence.window)


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything computed before it is written down."""

    outlook: Outlook
    shift: Shift
    slow: SlowPool | None
    aim: Aim
    stuck: tuple[Finding, ...]
    """Findings of an L2 that was seen full and making no room: it serves otherwise than any size would."""

    @property
    def drift(self) -> bool:
        """Whether the shift is both certain and large enough to matter."""
        return self.shift.p_value <= DRIFT_P_VALUE and abs(self.shift.ratio) >= DRIFT_SMALLEST_SHIFT

    @property
    def drifts_too_far(self) -> bool:
        """Whether the past says nothing about what comes next."""
        return self.drift and abs(self.shift.ratio) >= DRIFT_LARGEST_SHIFT


def _analyse(study: Study, evidence: Evidence, learned: Learned) -> Analysis:
    first = study.history.first_measured
    today = study.split(study.sizes_today())
    check = check_model(study.window, first, today)
    if check.deciding(Tier.L0) > MODEL_ALLOWANCE:
        # L0 keeps its size, so what it was seen to serve is a better base than a model that is off.
        study = study.with_observed_l0()
        today = study.split(study.sizes_today())
        on_observed = check_model(study.window, first, today)
        check = SelfCheck((check.compared[0], *on_observed.compared[1:]))
    ttft = ttft_model(study.window, first)
    slow = slow_pool(study, ttft)
    stuck = tuple(eviction_findings(own_pools(evidence.samples, study.deployment), evidence.window, today))
    sizings = _sizings(study, check, evidence, slow, pool_is_stuck=bool(stuck))
    outlook = Outlook(study, today, sizings, check, 0.0, ttft, learned)
    known = all(check.trusts(tier) and _is_known(tier, study, pool_is_stuck=bool(stuck)) for tier in sizings)
    aim = aimed(outlook, pool_pays=slow is None, sizes_are_known=known)
    outlook = replace(outlook, sizings=aim.sizings)
    shift = _shift(study, aim.sizings.values())
    analysis = Analysis(outlook, shift, slow, aim, stuck)
    widening = abs(shift.ratio) if analysis.drift else 0.0
    return replace(analysis, outlook=replace(analysis.outlook, drift_widening=widening))


def _sizings(
    study: Study, check: SelfCheck, evidence: Evidence, slow: SlowPool | None, *, pool_is_stuck: bool
) -> dict[Tier, TierSizing]:
    """Size L1, then L2 below the L1 that was chosen; a tier the model may get wrong keeps its size."""
    rng = np.random.default_rng(SEED)
    found: dict[Tier, TierSizing] = {}
    base = study.l0_tokens
    for tier in SIZED_TIERS:
        config = study.deployment.tier(tier)
        if config is None:
            continue
        task = SizingTask(
            tier=tier,
            stream=study.stream(tier),
            base=base,
            bytes_per_unit=study.bytes_per_unit(tier),
            current_bytes=config.capacity_bytes,
            limit_bytes=config.limit_bytes,
            least_bytes=_least_bytes(tier, study, evidence),
            target=_share(study.deployment.objective),
        )
        sizing = size_tier(task, study.history, rng)
        in_vain = tier is Tier.L2 and slow is not None and sizing.verdict is Verdict.GROW
        known = _is_known(tier, study, pool_is_stuck=pool_is_stuck)
        if not check.trusts(tier) or not known or in_vain:
            sizing = replace(sizing, verdict=Verdict.KEEP, chosen_bytes=config.capacity_bytes)
        found[tier] = sizing
        base = study.history.over(base, study.depth_tokens(tier, sizing.chosen_bytes))
    return found


def _share(objective: Objective) -> float:
    """The share of the hit ratio of unlimited sizes that single tiers are sized for."""
    return objective.target if objective.kind is ObjectiveKind.HIT_RATIO_SHARE else Objective().target


def _is_known(tier: Tier, study: Study, *, pool_is_stuck: bool) -> bool:
    """Whether the records show what a tier of another size would serve."""
    if tier is Tier.L1:
        return study.l1_is_known
    return not study.names_differ and not pool_is_stuck


def _least_bytes(tier: Tier, study: Study, evidence: Evidence) -> float:
    """The least a tier may be: one longest prompt, and whatever else must have room at once."""
    per_token = study.bytes_per_unit(tier) / study.stream(tier).unit_tokens
    longest = study.streams.l2.longest_units() * study.streams.l2.unit_tokens * per_token
    if tier is Tier.L1:
        staged = staged_tokens(study.window, study.history.first_measured)
        return max(longest, STAGING_ROOM * staged * per_token)
    pools = own_pools(evidence.samples, study.deployment)
    return max(longest, least_held_bytes(pools, study.sizes_today()[tier]))


def _shift(study: Study, sizings: Iterable[TierSizing]) -> Shift:
    """Drift of the hit ratio down to each tier, at the sizes they would have from now on.

    Never at more than was full when measuring began: that would show a cache that warms up, not a workload
    that changes.
    """
    parts, base = [], study.l0_tokens
    for sizing in sizings:
        task = sizing.task
        filled = max(int(task.stream.footprint_units(study.history.first_measured).min()), 1)
        size = np.array([min(task.units(sizing.chosen_bytes), filled)], dtype=np.int64)
        base = study.history.over(base, task.stream.hit_tokens(size)[:, 0])
        parts.append(study.history.measure(base).slices)
    slices = Slices(np.concatenate([part.hits for part in parts], axis=1), parts[0].total)
    return shift_of(slices, DRIFT_LATE_SLICES, DRIFT_PERMUTATIONS, np.random.default_rng(SEED))


def _advise(base: Recommendation, analysis: Analysis, window: RequestWindow) -> Recommendation:
    outlook, sizings = analysis.outlook, analysis.outlook.sizings
    changing = [sizing for sizing in sizings.values() if sizing.verdict is not Verdict.KEEP]
    missing = tuple(_missing_after_modelling(analysis, changing, window))
    changes = () if missing else tuple(_changes(changing, outlook, analysis.aim.start))
    status = Status.INSUFFICIENT_EVIDENCE if missing else Status.RECOMMEND if changes else Status.NO_CHANGE
    l0 = l0_curve(outlook.study)
    trusted = all(map(outlook.check.trusts, sizings)) and outlook.study.l1_is_known
    return replace(
        base,
        status=status,
        evidence=replace(
            base.evidence,
            warm_ratio=min(sizing.warm_ratio for sizing in sizings.values()),
            drift=analysis.drift,
            holdout_mae=max(sizing.curve.measured.holdout_mae for sizing in sizings.values()),
            missing=missing,
        ),
        changes=changes,
        curves={
            **({Tier.L0: l0} if l0 else {}),
            **{tier: curve_of(s, bool(changes) and s in changing) for tier, s in sizings.items()},
        },
        findings=_findings(base, analysis),
        alternatives=() if missing or not trusted else _alternatives(analysis),
        instances=() if missing or not trusted else tuple(_instances(base, outlook)),
    )


def _instances(base: Recommendation, outlook: Outlook) -> Iterable[InstanceChoice]:
    """Instance types at the TTFT that is asked for, else at today's."""
    today = base.current.ttft
    is_p50 = outlook.study.deployment.objective.ttft is TtftQuantile.P50
    return compared(outlook, today.p50 if is_p50 else today.p90)


def _alternatives(analysis: Analysis) -> tuple[Alternative, ...]:
    """The front of TTFT and cost where both are known, else what other shares of the hit ratio take."""
    choice = analysis.aim.choice
    looked_at = (*choice.grid, choice.nearest) if choice else ()
    return priced_alternatives(analysis.outlook, looked_at) or alternatives(analysis.outlook)


def _missing_after_modelling(
    analysis: Analysis, changing: Iterable[TierSizing], window: RequestWindow
) -> Iterable[Missing]:
    """What stands in the way of advice once the model has spoken."""
    changing = tuple(changing)
    yield from analysis.aim.missing()
    for sizing in changing:
        yield from too_cold(sizing, window)
        yield from too_uncertain(sizing, window)
    if analysis.drifts_too_far:
        shift, most = abs(analysis.shift.ratio), DRIFT_LARGEST_SHIFT
        yield Missing("shift of hit ratio within the window, at most", shift, most, window.span.seconds)
    check, study = analysis.outlook.check, analysis.outlook.study
    if changing:
        return
    if Tier.L1 in analysis.outlook.sizings and not study.l1_is_known:
        what = "whether L1 keeps what it loads from L2: set l1_keeps_loads of the deployment"
        yield Missing(what, None, None, None)
    if Tier.L2 in analysis.outlook.sizings and study.names_differ:
        yield Missing("records of replicas that hash alike, to tell what they share in L2", None, None, None)
    if Tier.L2 in analysis.outlook.sizings and analysis.stuck:
        yield Missing("records of a pool that makes room: this one is full and keeps all", None, None, None)
    for tier in analysis.outlook.sizings:
        if not check.trusts(tier):
            what = f"difference of modelled and observed hits down to {tier.value.upper()}, at most"
            yield Missing(what, check.deciding(tier), MODEL_LARGEST_DISAGREEMENT, None)


def _changes(changing: Iterable[TierSizing], outlook: Outlook, start: EngineStart) -> Iterable[Change]:
    before = outlook.study.sizes_today()
    if start.arguments:
        yield engine_change(outlook, start)
        outlook = replace(outlook, study=start.of(outlook.study))
    done: list[TierSizing] = []
    for sizing in changing:
        earlier = sizes_of(done, before)
        done.append(sizing)
        yield change_for(sizing, outlook, earlier, sizes_of(done, before))


def _model_findings(analysis: Analysis) -> Iterable[Finding]:
    outlook = analysis.outlook
    return chain(
        say.model_findings(outlook.check),
        say.drift_findings(analysis.shift, analysis.drifts_too_far) if analysis.drift else (),
        say.limit_findings(outlook.sizings.values()),
        say.dropped_load_findings(outlook.study),
        recompute_findings(outlook.study, analysis.slow),
        aim_findings(outlook, analysis.aim),
        analysis.stuck,
    )


def _findings(base: Recommendation, analysis: Analysis) -> tuple[Finding, ...]:
    """What the configuration says and what happened; of one kind, what happened."""
    seen = tuple(_model_findings(analysis))
    kinds = {finding.kind for finding in seen}
    return (*(finding for finding in base.findings if finding.kind not in kinds), *seen)


def _without_model(evidence: Evidence, deployment: Deployment, now_unix_seconds: float) -> Recommendation:
    """The document as far as it goes without a model: what is there, how it does, what is missing."""
    window = evidence.window
    completeness = completeness_ratio(evidence.coverage)
    readings = read_tiers(evidence, deployment)
    missing = tuple(
        missing_before_modelling(window, deployment, readings, chunk_tokens(evidence), completeness)
    )
    return Recommendation(
        status=Status.INSUFFICIENT_EVIDENCE,
        generated_at=utc(now_unix_seconds),
        window=Window(utc(window.span.start_unix_seconds), utc(window.span.end_unix_seconds)),
        evidence=EvidenceSummary(
            requests=window.requests,
            block_accesses=window.accesses,
            completeness_ratio=completeness,
            warm_ratio=None,
            drift=None,
            holdout_mae=None,
            routing_age_seconds=None,
            missing=missing,
        ),
        current=_current(evidence, deployment),
        changes=(),
        curves={},
        findings=(
            *_named_and_wired(evidence, deployment),
            *say.traffic_findings(window, missing),
            *say.completeness_findings(completeness, evidence.coverage, window, deployment),
        ),
        alternatives=(),
        forecasts=tuple(forecasts(evidence.samples, deployment.wiring.pool if deployment.wiring else None)),
    )


def _named_and_wired(evidence: Evidence, deployment: Deployment) -> tuple[Finding, ...]:
    """What the names in the records show, with the configuration's steps to mend it, and its own findings."""
    wired = {finding.kind: finding for finding in wiring_findings(deployment)}
    seen = [
        replace(finding, apply=wired.pop(finding.kind).apply) if finding.kind in wired else finding
        for finding in name_findings(evidence.beginnings)
    ]
    return (*wired.values(), *seen)


def _current(evidence: Evidence, deployment: Deployment) -> Current:
    window = evidence.window
    first = History(window.prompt).first_measured
    observed = _observed_ratios(window, first)
    ttft = window.ttft_seconds[first:]
    ttft = ttft[np.isfinite(ttft)]
    p50, p90 = (float(q) for q in np.quantile(ttft, (0.5, 0.9))) if len(ttft) else (None, None)
    return Current(
        namespace=deployment.namespace,
        endpoint=deployment.endpoint,
        model=deployment.model,
        routing=deployment.routing,
        replicas=deployment.replicas,
        tiers={
            tier: TierState(
                reading.capacity_bytes, reading.used_bytes, observed.get(tier), reading.bytes_per_token
            )
            for tier, reading in read_tiers(evidence, deployment).items()
        },
        ttft=Quantiles(p50, p90),
        cost_per_hour=cost_per_hour(
            deployment, {config.tier: config.capacity_bytes for config in deployment.tiers}
        ),
        currency=prices.currency if (prices := deployment.objective.prices) else None,
    )


def _observed_ratios(window: RequestWindow, first: int) -> dict[Tier, float]:
    """Share of prompt tokens each tier served; L1 and L2 only where records tell them apart."""
    total = int(window.prompt[first:].sum())
    if not total:
        return {}
    parts = {Tier.L0: window.l0, Tier.L1: window.l1, Tier.L2: window.l2}
    known = parts if not window.external[first:].any() else {Tier.L0: window.l0}
    return {tier: int(part[first:].sum()) / total for tier, part in known.items()}
