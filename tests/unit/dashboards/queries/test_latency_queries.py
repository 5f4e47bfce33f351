"""What requests waited is right at known inputs."""

from __future__ import annotations

import pytest

from dashboards.queries import latency
from dashboards.queries import tokens as tokens_of
from tests.promtool_cases import chosen, engine, series, tokens
from tierscope.registry.metrics import TIME_TO_FIRST_TOKEN
from tierscope.registry.regression_metrics import TTFT_REGRESSION_SECONDS, TTFT_RISE

pytestmark = pytest.mark.system


@pytest.fixture
def rules(repository) -> dict[str, tuple[str, ...]]:
    """What promtool is to load beside: the rules as they are checked in."""
    return {"rule_files": (str(repository / "dashboards/generated/tierscope-rules.yaml"),)}


def observed(served_from: str, growth: int, below: str) -> list[dict[str, str]]:
    """TTFT of so many requests a minute, all between the edge below `below` and `below`."""
    edges = ["0.1", "0.2", "0.4", "+Inf"]
    values = {edge: growth if edges.index(edge) >= edges.index(below) else 0 for edge in edges}
    labels = {**engine(), "served_from": served_from}
    return [
        *(
            series(TIME_TO_FIRST_TOKEN, f"0+{value}x20", part="_bucket", **labels, le=edge)
            for edge, value in values.items()
        ),
        series(TIME_TO_FIRST_TOKEN, f"0+{growth}x20", part="_count", **labels),
    ]


def test_ttft_is_told_apart_by_who_served(promtool, rules):
    """L0 answers within 0.1 s, what is computed takes 0.2 to 0.4 s; each with its share of the requests."""
    inputs = [*observed("l0", 90, "0.1"), *observed("computed", 30, "0.4")]
    from_l0, computed = '{served_from="l0"}', '{served_from="computed"}'

    for expression, expected in (
        (latency.ttft_quantile(0.5, tokens_of.TIERS), {from_l0: 0.05}),
        (latency.ttft_quantile(0.5, tokens_of.ELSE), {computed: 0.3}),
        (latency.requests_ratio(tokens_of.TIERS), {from_l0: 0.75}),
        (latency.requests_ratio(tokens_of.ELSE), {computed: 0.25}),
        (latency.ttft_quantile_of_all(0.9), {"{}": 0.32}),
    ):
        promtool.check(inputs, chosen(expression), expected, **rules)


def test_the_replicas_chosen_answer_from_their_own_buckets(promtool):
    """Needs no recorded series, and speaks of no other replica."""
    inputs = [*observed("l0", 90, "0.1"), *observed("computed", 30, "0.4")]

    promtool.check(inputs, chosen(latency.ttft_of_replicas(0.5), replica="chat-0"), {"{}": 0.0666667})
    promtool.check(inputs, chosen(latency.ttft_of_replicas(0.5), replica="chat-1"), {})


def test_a_request_has_as_many_tokens_as_it_was_asked_for(promtool, rules):
    """1,200 tokens in two requests a minute are 600 each, and 210 of them computed."""
    inputs = [*tokens(l0=780, computed=420), *observed("l0", 2, "0.1")]

    promtool.check(inputs, chosen(latency.prompt_tokens_a_request()), {"{}": 600}, **rules)
    promtool.check(inputs, chosen(latency.computed_tokens_a_request()), {"{}": 210}, **rules)
    promtool.check(tokens(l0=780), chosen(latency.prompt_tokens_a_request()), {}, **rules)


def test_late_requests_are_a_share_of_all(promtool, rules):
    """Those whose bucket lies beyond the objective's edge."""
    labels = {**engine(), "served_from": "l0"}
    inputs = [
        series(TIME_TO_FIRST_TOKEN, f"0+{growth}x20", part=part, **labels, **edge)
        for part, growth, edge in (
            ("_bucket", 90, {"le": "2.0"}), ("_bucket", 120, {"le": "+Inf"}), ("_count", 120, {}),
        )
    ]  # fmt: skip

    promtool.check(inputs, chosen(latency.late_ratio()), {'{namespace="ns",endpoint="chat"}': 0.25}, **rules)
    promtool.check([], chosen(latency.late_ratio()), {}, **rules)


def test_a_regression_names_who_did_it_and_an_endpoint_without_one_is_absent(promtool):
    """Every label of the culprit stays; nothing is shown as 0."""
    labels = {"namespace": "ns", "endpoint": "chat", "model": "m"}
    guilty = {"cause": "tier_speed", "tier": "l2", "reason": "slow", "since": "2026-01-01T10:05Z"}
    inputs = [
        series(TTFT_REGRESSION_SECONDS, "0.7x20", **labels, **guilty),
        series(TTFT_RISE, "-0.1x20", **labels, cause="mix"),
        series(TTFT_RISE, "0.6x20", **labels, cause="tier_speed"),
    ]
    words = ",".join(f'{label}="{value}"' for label, value in (labels | guilty).items())
    asked = latency.regressions(TTFT_REGRESSION_SECONDS)

    promtool.check(inputs, chosen(asked), {f"{{{words}}}": 0.7})
    promtool.check(inputs, chosen(asked, endpoint="rag"), {})
    promtool.check(
        inputs, chosen(latency.rise_by_cause()), {'{cause="mix"}': -0.1, '{cause="tier_speed"}': 0.6}
    )
