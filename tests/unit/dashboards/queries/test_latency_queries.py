"""What requests waited is right at known inputs."""

from __future__ import annotations

import pytest

from dashboards.queries import latency
from dashboards.queries import tokens as tokens_of
from tests.promtool_cases import chosen, engine, series
from tierscope.registry.metrics import TIME_TO_FIRST_TOKEN

pytestmark = pytest.mark.system


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


def test_ttft_is_told_apart_by_who_served(promtool):
    """L0 answers within 0.1 s, what is computed takes 0.2 to 0.4 s; each with its share of the requests."""
    inputs = [*observed("l0", 90, "0.1"), *observed("computed", 30, "0.4")]

    promtool.check(inputs, chosen(latency.ttft_quantile(0.5, tokens_of.TIERS)), {'{served_from="l0"}': 0.05})
    promtool.check(
        inputs, chosen(latency.ttft_quantile(0.5, tokens_of.ELSE)), {'{served_from="computed"}': 0.3}
    )
    promtool.check(inputs, chosen(latency.requests_ratio(tokens_of.TIERS)), {'{served_from="l0"}': 0.75})
    promtool.check(inputs, chosen(latency.requests_ratio(tokens_of.ELSE)), {'{served_from="computed"}': 0.25})
