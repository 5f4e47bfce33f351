"""Shares of prompt tokens are right at known inputs, and nothing where there is nothing to tell."""

from __future__ import annotations

import pytest

from dashboards.queries import latency, sources
from dashboards.queries import tokens as tokens_of
from tests.promtool_cases import chosen, engine, series, tokens
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import UNASKED_TOKENS
from tierscope.registry.metrics import ENGINE_TOKENS, SOURCE_MESSAGES, TIME_TO_FIRST_TOKEN

pytestmark = pytest.mark.system


SPLIT = {"l0": 600, "l1": 120, "l2": 60, "external": 0, "computed": 420}
"""1,200 prompt tokens a minute; L0 leaves 600 over, L1 leaves 480."""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (tokens_of.cached_ratio(), {"{}": 0.65}),
        (tokens_of.all_tokens(), {"{}": 20}),
        (tokens_of.tier_hit_ratio(Tier.L0), {"{}": 0.5}),
        (tokens_of.tier_hit_ratio(Tier.L1), {"{}": 0.2}),
        (tokens_of.tier_hit_ratio(Tier.L2), {"{}": 0.125}),
        (tokens_of.served_ratio_by_tier(), {'{tier="l0"}': 0.5, '{tier="l1"}': 0.1, '{tier="l2"}': 0.05}),
        (
            tokens_of.tokens_by_origin(tokens_of.TIERS),
            {'{tier="l0"}': 10, '{tier="l1"}': 2, '{tier="l2"}': 1},
        ),
        (tokens_of.tokens_by_origin(tokens_of.EXTERNAL), {'{tier="external"}': 0}),
        (tokens_of.tokens_by_origin(tokens_of.ELSE), {'{tier="computed"}': 7}),
    ],
)
def test_ratios_are_ratios_of_sums_over_replicas(promtool, expression, expected):
    """One replica hits all, one misses all: the ratio is of tokens, not the mean of two ratios."""
    hits = {tier: growth for tier, growth in SPLIT.items() if tier != "computed"}

    inputs = tokens("chat-0", **hits, computed=0) + tokens("chat-1", computed=SPLIT["computed"])
    promtool.check(inputs, chosen(expression), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (tokens_of.cached_ratio(), {"{}": 0.65}),
        (tokens_of.tier_hit_ratio(Tier.L0), {"{}": 0.5}),
        (tokens_of.tier_hit_ratio(Tier.L2), {"{}": 0.125}),
        (tokens_of.served_ratio(Tier.L1), {"{}": 0.1}),
        (tokens_of.served_ratio_by_tier(), {'{tier="l0"}': 0.5, '{tier="l1"}': 0.1, '{tier="l2"}': 0.05}),
        (tokens_of.all_tokens(), {"{}": 70}),
    ],
)
def test_what_is_looked_up_in_no_cache_is_in_no_hit_ratio(promtool, expression, expected):
    """UD-03: requests with prompt logprobs are computed whole, on one replica alone; the ratios stay."""
    unasked = 3000
    computed = SPLIT | {"computed": SPLIT["computed"] + unasked}
    inputs = [
        *tokens("chat-0", **computed),
        series(UNASKED_TOKENS, f"0+{unasked}x20", **engine(replica="chat-0")),
    ]
    promtool.check(inputs, chosen(expression), expected)


@pytest.mark.parametrize(
    "expression",
    [
        tokens_of.cached_ratio(),
        tokens_of.served_ratio_by_tier(),
        *(tokens_of.tier_hit_ratio(tier) for tier in Tier),
        latency.ttft_quantile(0.9, tokens_of.TIERS),
        latency.requests_ratio(tokens_of.TIERS),
        tokens_of.agreement_ratio(),
        sources.lost_by_kind(),
    ],
)
def test_without_traffic_a_ratio_is_absent(promtool, expression):
    """Idle is not a hit ratio of 0, and no one sees NaN."""
    idle = [
        *tokens(l0=0, l1=0, l2=0, computed=0),
        series(ENGINE_TOKENS, "7x20", **engine(), tier="l0"),
        series(TIME_TO_FIRST_TOKEN, "7x20", part="_bucket", **engine(), served_from="l0", le="+Inf"),
        series(TIME_TO_FIRST_TOKEN, "7x20", part="_count", **engine(), served_from="l0"),
        series(SOURCE_MESSAGES, "0x20", source="feed:node-1", result="missing"),
    ]

    promtool.check(idle, chosen(expression), {})


def test_a_scrape_a_minute_has_data(promtool):
    """Grafana's window is then at least four minutes, where half a minute would find nothing."""
    promtool.check(tokens(**SPLIT), chosen(tokens_of.cached_ratio(), window="4m"), {"{}": 0.65})
    promtool.check(tokens(**SPLIT), chosen(tokens_of.cached_ratio(), window="30s"), {})


def test_a_choice_of_endpoint_leaves_others_out(promtool):
    """The board speaks of what is chosen."""
    inputs = tokens(l0=60, computed=60) + tokens("rag-0", "rag", l0=0, computed=600)

    promtool.check(inputs, chosen(tokens_of.cached_ratio(), endpoint="chat"), {"{}": 0.5})
    promtool.check(inputs, chosen(tokens_of.cached_ratio(), endpoint="(chat|rag)"), {"{}": 1 / 12})


def test_records_and_the_engines_counters_are_compared_by_their_rates(promtool):
    """A record in ten is lost: nine tenths."""
    inputs = [*tokens(l0=540, computed=540), series(ENGINE_TOKENS, "0+1200x20", **engine(), tier="l0")]

    promtool.check(inputs, chosen(tokens_of.agreement_ratio()), {"{}": 0.9})


def test_the_share_by_endpoint_comes_from_recorded_series(promtool, repository):
    """Two replicas of chat and one of rag are two lines, each over its own tokens."""
    inputs = (
        tokens(l0=60, computed=60)
        + tokens("chat-1", l0=60, computed=20)
        + tokens("rag-0", "rag", l0=0, computed=60)
    )

    promtool.check(
        inputs,
        chosen(tokens_of.cached_ratio_by_endpoint()),
        {'{namespace="ns",endpoint="chat"}': 0.6, '{namespace="ns",endpoint="rag"}': 0},
        rule_files=(str(repository / "dashboards/generated/tierscope-rules.yaml"),),
    )
