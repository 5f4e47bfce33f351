"""Tokens, seconds and money of misses are right at known inputs."""

from __future__ import annotations

from functools import partial

import pytest

from dashboards.queries import misses
from tests.promtool_cases import chosen, series
from tests.rule_mutants import RULES
from tierscope.registry.advice_metrics import ADVISED_COST
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS

pytestmark = pytest.mark.system

CHAT, RAG = ({"namespace": "ns", "endpoint": name} for name in ("chat", "rag"))


@pytest.fixture
def check(promtool):
    """With the shipped rules."""
    return partial(promtool.check, rule_files=(str(RULES),))


def test_tokens_and_seconds_are_added_up_by_cause(check):
    """Of every endpoint chosen."""
    tokens = [series(MISS_TOKENS, "0+600x20", cause="routing", **one) for one in (CHAT, RAG)]
    seconds = [
        series(MISS_SECONDS, "0+30x20", cause="routing", **CHAT),
        series(MISS_SECONDS, "0+60x20", cause="compulsory", **RAG),
    ]

    check(tokens, chosen(misses.computed_by_cause()), {'{cause="routing"}': 20})
    check(
        seconds,
        chosen(misses.seconds_by_cause()),
        {'{cause="routing"}': 0.5, '{cause="compulsory"}': 1},
    )
    check(seconds, chosen(misses.seconds_by_cause(), endpoint="chat"), {'{cause="routing"}': 0.5})


def test_a_cost_an_hour_keeps_currencies_apart(check):
    """Euros and dollars are two lines, and two sums."""
    costs = [
        series(MISS_COST, "0+0.5x20", cause="routing", currency="EUR", **CHAT),
        series(MISS_COST, "0+0.25x20", cause="compulsory", currency="EUR", **CHAT),
        series(MISS_COST, "0+1x20", cause="routing", currency="USD", **RAG),
    ]

    check(
        costs,
        chosen(misses.cost_by_cause()),
        {
            '{cause="routing",currency="EUR"}': 30,
            '{cause="compulsory",currency="EUR"}': 15,
            '{cause="routing",currency="USD"}': 60,
        },
    )
    check(costs, chosen(misses.cost()), {'{currency="EUR"}': 45, '{currency="USD"}': 60})


def test_what_is_counted_minutes_apart_is_drawn_without_gaps(check):
    """A look every two minutes at four scrapes a minute: between two of them nothing stands still at 0."""
    looks = "0x7 " + " ".join(f"{number * 240}x7" for number in range(1, 11))
    tokens = [series(MISS_TOKENS, looks, cause="routing", **CHAT)]

    for at in ("10m", "10m45s", "11m30s"):
        check(tokens, f"{chosen(misses.computed_by_cause(), window='1m')} > bool 1", {'{cause="routing"}': 1},
              at=at, interval="15s")  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "query", "more"),
    [(MISS_SECONDS, misses.seconds_by_cause, {}), (MISS_COST, misses.cost, {"currency": "EUR"})],
    ids=["seconds", "cost"],
)
def test_what_stands_still_is_not_known_and_absent(check, metric, query, more):
    """While TTFT is not explained nothing is added: that is no 0. A cause without tokens is one."""
    stood = [series(metric, f"{value}x20", cause=str(value), **CHAT, **more) for value in (0, 7)]

    check(stood, chosen(query()), {})


def test_a_cause_without_tokens_is_zero_beside_others(check):
    """It is known that it took nothing."""
    seconds = [
        series(MISS_SECONDS, values, cause=cause, **CHAT)
        for cause, values in (("a", "0x20"), ("b", "0+60x20"))
    ]

    check(seconds, chosen(misses.seconds_by_cause()), {'{cause="a"}': 0, '{cause="b"}': 1})


def test_without_prices_there_is_no_cost(check):
    """Absent, not 0."""
    seconds = [series(MISS_SECONDS, "0+30x20", cause="routing", **CHAT)]

    check(seconds, chosen(misses.cost_by_cause()), {})
    check(seconds, chosen(misses.cost()), {})


def test_what_an_endpoint_costs_is_told_by_cluster_point_and_currency(check):
    """Endpoints of one name in two clusters are two."""
    costs = [
        series(ADVISED_COST, f"{value}x20", cluster=cluster, point=point, currency="EUR", **CHAT)
        for cluster, point, value in (("a", "current", 9), ("a", "recommended", 7), ("b", "current", 3))
    ]
    a, b = (f'cluster="{name}",namespace="ns",endpoint="chat",currency="EUR"' for name in "ab")

    check(
        costs,
        chosen(misses.advised_cost()),
        {
            f'{{{a},point="current"}}': 9,
            f'{{{a},point="recommended"}}': 7,
            f'{{{b},point="current"}}': 3,
        },
    )
