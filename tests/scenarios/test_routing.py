"""Deployments behind a router whose best answer is known from how their traffic is made."""

from __future__ import annotations

import functools
import json

import pytest

from tests import workloads as w
from tests.scenarios import routed as r
from tierscope.advice.document import (
    ApplyFormat,
    ChangeKind,
    Finding,
    FindingKind,
    Recommendation,
    Status,
    parse_recommendation,
)
from tierscope.advice.routing.advisor import Advisor
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.severity import Severity

AFFINE = {"session", "prefixaware"}
"""Policies that keep a conversation together: where nothing is shared they do the same."""

HOT = r.hot()
BY_NAME = {
    "talks in turn": r.Routed(r.talks()),
    "talks by session": r.Routed(r.talks(), RoutingPolicy.SESSION, placed=r.by_session(r.talks(), 4)),
    "talks, TTFT known": r.Routed(r.talks(), seconds_between=0.06),
    "one-shot prompts": r.Routed(r.one_shot(), l1=4),
    "hot beginning, prefixaware, idle": r.Routed(
        HOT, RoutingPolicy.PREFIXAWARE, placed=r.by_first(HOT, 4), seconds_between=0.1
    ),
    "hot beginning, prefixaware, busy": r.Routed(
        HOT, RoutingPolicy.PREFIXAWARE, placed=r.by_first(HOT, 4), seconds_between=0.012
    ),
    "hot beginning, in turn": r.Routed(HOT),
    "kvaware on the chat path": r.Routed(r.apps(), RoutingPolicy.KVAWARE, l0=160, l1=40, wiring=r.wired()),
    "apps behind a gateway that looks at load alone": r.Routed(
        r.apps(),
        RoutingPolicy.GATEWAY,
        l0=160,
        l1=40,
        wiring=r.behind_gateway(queue=1, kvCache=1, prefix=0, lru=1),
    ),
    "no router": r.Routed(r.talks(), RoutingPolicy.NONE),
    "router not known": r.Routed(r.talks(), RoutingPolicy.UNKNOWN),
    "one replica": r.Routed(r.talks(), replicas=1),
    "one busy replica": r.Routed(r.one_shot(), replicas=1, l1=4, seconds_between=0.02),
    "too few requests": r.Routed(r.talks(), seen=100),
}


@functools.cache
def advised(name: str) -> Recommendation:
    return BY_NAME[name].advised()


def routing_change(name: str):
    [change] = [c for c in advised(name).changes if c.kind is ChangeKind.ROUTING]
    return change


def finding(name: str, kind: FindingKind) -> Finding:
    [found] = [one for one in advised(name).findings if one.kind is kind]
    return found


@pytest.mark.parametrize(
    ("name", "routing"),
    [
        ("talks in turn", AFFINE),
        ("talks by session", set()),
        ("talks, TTFT known", AFFINE),
        ("one-shot prompts", set()),
        ("hot beginning, prefixaware, idle", set()),
        ("hot beginning, prefixaware, busy", {"roundrobin"}),
        ("hot beginning, in turn", set()),
        ("kvaware on the chat path", {"prefixaware"}),
        ("apps behind a gateway that looks at load alone", {"queue 2, kvCache 2, prefix 3"}),
        ("router not known", set()),
        ("one replica", set()),
        ("one busy replica", set()),
        ("too few requests", set()),
    ],
)
def test_a_policy_is_advised_where_it_is_better_and_only_there(name, routing):
    """Conversations want to stay, applications to be together; what shares nothing may go anywhere."""
    found = {c.to for c in advised(name).changes if c.kind is ChangeKind.ROUTING}

    assert found <= routing
    assert bool(found) == bool(routing)
    assert parse_recommendation(advised(name).to_json()) == advised(name)


def test_a_change_says_what_it_brings_with_an_interval_and_how_it_is_applied():
    """Hits by tier and TTFT, the patch of the strategy, its risks, and when to undo it."""
    change = routing_change("talks, TTFT known")
    for estimate in (change.predicted.ttft_p50_seconds, change.predicted.hit_ratio.l0):
        assert estimate.low <= estimate.value <= estimate.high
    now = advised("talks, TTFT known").current
    written = json.dumps(change.apply[0].document)

    assert change.from_ == "roundrobin"
    assert change.predicted.ttft_p90_seconds.high < now.ttft.p90
    assert change.predicted.hit_ratio.total.low > 0.5
    assert "/spec/intelligentRoutingSpec/routingStrategy" in written
    assert {reason.comparison for reason in change.revert_if} == {"<", ">"}
    assert any("kvaware was not considered" in risk for risk in change.risks)


def test_without_a_recorded_ttft_none_is_foretold():
    """Step times are assumed then: they order policies, and are no figures of this deployment."""
    predicted = routing_change("talks in turn").predicted

    assert predicted.ttft_p50_seconds is predicted.ttft_p90_seconds is None
    assert "assum" in routing_change("talks in turn").why


def test_the_monopoly_is_told_before_while_and_after():
    """Whoever thinks of prefixaware is told; who has it is told by the share of the busiest replica."""
    before = finding("hot beginning, in turn", FindingKind.PREFIXAWARE_MONOPOLY)
    after = finding("hot beginning, prefixaware, busy", FindingKind.PREFIXAWARE_MONOPOLY)

    assert (before.severity, after.severity) == (Severity.INFO, Severity.CRITICAL)
    assert "128 characters" in before.evidence
    assert "100% of them went to pod-" in after.evidence
    assert not any(f.kind is FindingKind.PREFIXAWARE_MONOPOLY for f in advised("talks in turn").findings)


def test_a_blind_kvaware_is_not_offered_and_told_why():
    """On the chat path it finds nothing, whether it is in force or might be."""
    compared = finding("kvaware on the chat path", FindingKind.ROUTING_COMPARED)

    assert finding("kvaware on the chat path", FindingKind.KVAWARE_BLIND).severity is Severity.CRITICAL
    assert "kvaware cannot be used: it reads prompts on the completions path alone" in compared.evidence


def test_a_gateway_gets_weights_and_keeps_those_that_are_not_modelled():
    """The patch is one of the gateway's resource, and says nothing of other scores."""
    change = routing_change("apps behind a gateway that looks at load alone")
    [step] = change.apply

    assert step.format is ApplyFormat.GATEWAY_PATCH
    assert {op["path"].rpartition("/")[2] for op in step.document} == {"queue", "kvCache", "prefix"}
    assert all(op["path"].startswith("/spec/schedulers/1/weights/") for op in step.document)
    assert any("lru" in risk for risk in change.risks)


def test_a_router_that_is_absent_takes_a_second_endpoint():
    """It cannot be added in place: sizes that can be changed go first, and the finding says how."""
    compared = finding("no router", FindingKind.ROUTING_COMPARED)
    [step] = compared.apply

    assert {c.kind for c in advised("no router").changes} <= {ChangeKind.TIER_SIZE}
    assert step.format is ApplyFormat.COPY_PATCH
    assert step.document[0]["value"]["enabled"] is True
    assert step.document[0]["value"]["routingStrategy"] in AFFINE


def test_replicas_are_advised_where_nothing_else_helps():
    """Prompts that share nothing queue up at one replica: no size and no policy changes that."""
    [change] = advised("one busy replica").changes

    assert (change.kind, change.from_, change.target) == (ChangeKind.REPLICAS, 1.0, "replicas")
    assert change.to >= 2
    assert change.apply[0].document == [{"op": "add", "path": "/spec/replicas", "value": int(change.to)}]
    assert change.predicted.ttft_p50_seconds.high < advised("one busy replica").current.ttft.p50


def test_what_was_lost_to_the_pick_is_told():
    """UD-14: in turn, what a conversation needs is on another replica; by session it is not."""
    lost = finding("talks in turn", FindingKind.ROUTING_LOSS)

    assert "were in another one's (the pick), 0.0% the router took to be" in lost.evidence
    assert not any(f.kind is FindingKind.ROUTING_LOSS for f in advised("talks by session").findings)


def test_every_policy_is_shown_with_its_hits_and_its_balance():
    """UD-57: whoever asks which policy to use sees what each would make of this traffic."""
    evidence = finding("talks in turn", FindingKind.ROUTING_COMPARED).evidence

    for words in ("as it is: L0", "session: L0", "prefixaware: L0", "busiest replica", "mean TTFT"):
        assert words in evidence


@pytest.mark.parametrize("name", ["router not known", "one replica", "too few requests"])
def test_where_nothing_can_be_compared_no_age_is_given(name):
    """Not known how it is routed, nowhere else to go, or hardly anything recorded."""
    document = advised(name)
    compared = document.evidence.routing_age_seconds is not None

    assert compared == (name == "one replica")
    assert (document.status is Status.INSUFFICIENT_EVIDENCE) == (name == "too few requests")


def test_a_comparison_is_kept_until_it_is_old_or_the_deployment_another():
    """It costs half a minute: what was found is used again, and its age said."""
    case = BY_NAME["one replica"]
    evidence, advise = case.evidence(), Advisor()
    ages = [
        advise(evidence, deployment, now_unix_seconds=w.NOW + later).evidence.routing_age_seconds
        for later, deployment in (
            (0.0, case.deployment()),
            (600.0, case.deployment()),
            (1900.0, case.deployment()),
            (2000.0, r.replace(case, l1=100).deployment()),
        )
    ]

    assert ages == [0.0, 600.0, 0.0, 0.0]
