"""Advice with routing in it: which policy, how many replicas, and what each would do with this traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tierscope.advice.compared import Compared
from tierscope.advice.document import Change, ChangeKind, Finding, FindingKind, Recommendation, Status
from tierscope.advice.learned import Learned, learned_from
from tierscope.advice.miss_findings import miss_findings
from tierscope.advice.recommend import recommend
from tierscope.advice.routing.lost import loss_findings, lost_by_routing, routed_hits
from tierscope.advice.routing.monopoly import first_piece, monopoly_findings, threatens
from tierscope.advice.routing.patches import apply_routing, routing_revert_if, routing_risks
from tierscope.advice.routing.replica_count import replicas_change
from tierscope.advice.routing.study import Comparison, Outcome, compare
from tierscope.advice.thresholds import ALIKE_TTFT_RATIO, ROUTING_RENEWAL_SECONDS
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.severity import Severity
from tierscope.domain.window import Evidence

SIZES_WAIT = (
    "What the tiers' sizes should be under it is advised once a window has passed under it: with other "
    "routing each replica sees other prompts."
)


class Looked(NamedTuple):
    """What takes long to find out of an endpoint, for which configuration and when it was found."""

    deployment: Deployment
    at_unix_seconds: float
    compared: Comparison | str
    misses: tuple[Finding, ...]


class Advisor:
    """Advises on sizes each time it is asked, and looks anew at what takes long only when that is old.

    The comparison of routers serves thousands of requests again for every policy, so its age is in the
    document. It is kept for each endpoint with what was told of misses, and made anew for another
    configuration.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Looked] = {}

    def __call__(
        self,
        evidence: Evidence,
        deployment: Deployment,
        *,
        now_unix_seconds: float,
        earlier: Sequence[Compared] = (),
    ) -> Recommendation:
        """Advise on one deployment; `earlier` is what came of its earlier changes."""
        learned = learned_from(earlier)
        document = recommend(evidence, deployment, now_unix_seconds=now_unix_seconds, learned=learned)
        document = _with(document, monopoly_findings(evidence.window, deployment))
        if document.evidence.missing:
            return document
        looked = self._looked(evidence, deployment, now_unix_seconds, learned)
        document = _with(document, looked.misses)
        if isinstance(looked.compared, str):
            return _with(document, _not_compared(looked.compared, deployment))
        return with_routing(document, looked.compared, evidence, now_unix_seconds)

    def _looked(
        self, evidence: Evidence, deployment: Deployment, now_unix_seconds: float, learned: Learned
    ) -> Looked:
        endpoint = (deployment.namespace, deployment.endpoint)
        kept = self._kept.get(endpoint)
        old = kept is None or now_unix_seconds - kept.at_unix_seconds >= ROUTING_RENEWAL_SECONDS
        if kept is not None and not old and kept.deployment == deployment:
            return kept
        compared = compare(evidence, deployment, now_unix_seconds=now_unix_seconds, learned=learned)
        misses = tuple(miss_findings(evidence, deployment))
        self._kept[endpoint] = Looked(deployment, now_unix_seconds, compared, misses)
        return self._kept[endpoint]


def with_routing(
    document: Recommendation, compared: Comparison, evidence: Evidence, now_unix_seconds: float
) -> Recommendation:
    """Add what a comparison says to advice on sizes.

    A change of policy stands alone: sizes were computed for the routing of today. Where the endpoint would
    have to be created anew for it, sizes that can be changed in place go first, and routing is a finding.
    """
    age = max(now_unix_seconds - compared.at_unix_seconds, 0.0)
    document = replace(document, evidence=replace(document.evidence, routing_age_seconds=age))
    deployment = compared.fleet.deployment
    best = _best(compared, evidence)
    loss = lost_by_routing(compared.fleet)
    found = [*_compared(compared, best), *loss_findings(compared.fleet, loss)]
    document = _with(replace(document, routed_hits=routed_hits(compared.fleet, loss)), found)
    if best is not None and not (deployment.routing is RoutingPolicy.NONE and document.changes):
        return replace(document, status=Status.RECOMMEND, changes=(_routing_change(compared, best),))
    if document.changes or document.status is not Status.NO_CHANGE:
        return document
    more = replicas_change(compared)
    return document if more is None else replace(document, status=Status.RECOMMEND, changes=(more,))


def _best(compared: Comparison, evidence: Evidence) -> Outcome | None:
    """The fastest policy that beats today's beyond its interval; of equally fast ones the most even.

    Never one that is about to become a monopoly.
    """
    if compared.problem is not None:
        return None
    monopoly = threatens(first_piece(evidence.window), compared.fleet.deployment)
    better = [
        one
        for one in compared.others
        if one.is_better and not (monopoly and one.option.policy is RoutingPolicy.PREFIXAWARE)
    ]
    fastest = min((one.ttft_ratio.value for one in better), default=0.0)
    alike = (one for one in better if one.ttft_ratio.value <= fastest + ALIKE_TTFT_RATIO)
    return min(alike, key=lambda one: one.imbalance, default=None)


def _with(document: Recommendation, more: Iterable[Finding]) -> Recommendation:
    return replace(document, findings=(*document.findings, *more))


def _routing_change(compared: Comparison, then: Outcome) -> Change:
    deployment = compared.fleet.deployment
    weighed = then.option.weights is not None
    today = (
        deployment.routing.value if deployment.routing is RoutingPolicy.NONE else compared.today.option.name
    )
    return Change(
        id="routing",
        kind=ChangeKind.ROUTING,
        target="routing",
        from_=today,
        to=then.option.name,
        unit="weights" if weighed else "policy",
        predicted=then.predicted,
        why=_why(compared, then),
        risks=routing_risks(compared, then),
        apply=apply_routing(deployment, then),
        revert_if=routing_revert_if(deployment, then),
    )


def _why(compared: Comparison, then: Outcome) -> str:
    today, ratio = compared.today, then.ttft_ratio
    hits_now, hits_then = today.predicted.hit_ratio, then.predicted.hit_ratio
    above = hits_now.l0.value + hits_now.l1.value
    above_then = hits_then.l0.value + hits_then.l1.value
    faster = (
        f"Served again with {then.option.name}, the same requests had {ratio.value:.0%} of the mean TTFT of "
        f"today's routing ({ratio.low:.0%} to {ratio.high:.0%})."
    )
    hits = (
        f"L0 and L1 served {above_then:.1%} of the prompt tokens instead of {above:.1%}, all tiers "
        f"{hits_then.total.value:.1%} instead of {hits_now.total.value:.1%}; the busiest replica "
        f"got {then.imbalance:.2f} times the mean instead of {today.imbalance:.2f}."
    )
    return " ".join((faster, hits, _rests_on(compared), SIZES_WAIT))


def _rests_on(compared: Comparison) -> str:
    sample, calibration = compared.fleet.sample, compared.fleet.calibration
    words = (
        f"That rests on the newest {len(sample.requests):,} requests ({compared.sampled_ratio:.0%} of the "
        "window), at the sizes of today."
    )
    if calibration.error_ratio is not None:
        return (
            f"{words} On the recorded placement the model's TTFT is within {calibration.error_ratio:.0%} of "
            f"the recorded one, with answers of {calibration.output_tokens} tokens (records do not tell "
            "their length)."
        )
    slowed = "" if calibration.speed == 1 else f", and requests {1 / calibration.speed:.0f} times slower"
    return f"{words} No TTFT was recorded: step times of a 7B model on a 48 GB GPU are assumed{slowed}."


def _compared(compared: Comparison, best: Outcome | None) -> Iterator[Finding]:
    """What each policy would do: hits, balance, TTFT over today's, and which cannot be used."""
    if not compared.others and compared.problem is None:
        return
    lines = [_line(compared.today, "as it is"), *(_line(one, one.option.name) for one in compared.others)]
    lines += [f"{one.policy.value} cannot be used: {one.because}" for one in compared.excluded]
    fix = "nothing to do: the differences do not exceed what they may be off by"
    if compared.problem is not None:
        lines.append(f"none is advised, because {compared.problem}")
        fix = "check tier sizes, and that hash seeds and chunk sizes are equal on all replicas"
    elif best is not None:
        fix = f"route by {best.option.name}: see the change, or the step below"
    yield Finding(
        FindingKind.ROUTING_COMPARED,
        Severity.INFO,
        "What each way to route would make of these requests",
        f"{'; '.join(lines)}. {_rests_on(compared)}",
        fix,
        () if best is None else apply_routing(compared.fleet.deployment, best),
    )


def _line(one: Outcome, name: str) -> str:
    hits, ratio = one.predicted.hit_ratio, one.ttft_ratio
    return (
        f"{name}: L0 {hits.l0.value:.1%}, L1 {hits.l1.value:.1%}, all tiers {hits.total.value:.1%}, busiest "
        f"replica {one.imbalance:.2f} times the mean, mean TTFT {ratio.value:.0%} of today's "
        f"({ratio.low:.0%} to {ratio.high:.0%})"
    )


def _not_compared(because: str, deployment: Deployment) -> Iterator[Finding]:
    if deployment.replicas < 2:
        return
    yield Finding(
        FindingKind.ROUTING_COMPARED,
        Severity.INFO,
        "Ways to route were not compared",
        f"{because}.",
        "advice on sizes does not depend on it; make known what is missing",
    )
