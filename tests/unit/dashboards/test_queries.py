"""Every query gives the right number at known inputs, and nothing where there is nothing to tell."""

from __future__ import annotations

import pytest

from dashboards import queries
from tests.promtool_cases import PromtoolCases, chosen, series
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import (
    CAPACITY_BLOCKS,
    CAPACITY_BYTES,
    COMPLETENESS,
    ENGINE_TOKENS,
    EVICTED_BLOCKS,
    REQUEST_TOKENS,
    RESIDENT_BLOCKS,
    SOURCE_MESSAGES,
    SOURCE_UP,
    TIME_TO_FIRST_TOKEN,
    USED_BYTES,
)

pytestmark = pytest.mark.system


@pytest.fixture
def promtool(system_binary, tmp_path) -> PromtoolCases:
    """Expressions evaluated by promtool."""
    return PromtoolCases(system_binary("promtool", package="prometheus"), tmp_path)


def engine(replica: str = "chat-0", endpoint: str = "chat") -> dict[str, str]:
    """The labels of one engine."""
    return {"namespace": "ns", "endpoint": endpoint, "model": "m", "replica": replica, "rank": "0"}


def tokens(replica: str = "chat-0", endpoint: str = "chat", **by_tier: int) -> list[dict[str, str]]:
    """Request tokens that grow by so many a minute in each tier."""
    return [
        series(REQUEST_TOKENS, f"0+{growth}x20", **engine(replica, endpoint), tier=tier)
        for tier, growth in by_tier.items()
    ]


SPLIT = {"l0": 600, "l1": 120, "l2": 60, "external": 0, "computed": 420}
"""1,200 prompt tokens a minute; L0 leaves 600 over, L1 leaves 480."""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (queries.cached_ratio(), {"{}": 0.65}),
        (queries.all_tokens(), {"{}": 20}),
        (queries.tier_hit_ratio(Tier.L0), {"{}": 0.5}),
        (queries.tier_hit_ratio(Tier.L1), {"{}": 0.2}),
        (queries.tier_hit_ratio(Tier.L2), {"{}": 0.125}),
        (queries.served_ratio_by_tier(), {'{tier="l0"}': 0.5, '{tier="l1"}': 0.1, '{tier="l2"}': 0.05}),
        (queries.tokens_by_origin(queries.TIERS), {'{tier="l0"}': 10, '{tier="l1"}': 2, '{tier="l2"}': 1}),
        (queries.tokens_by_origin(queries.EXTERNAL), {'{tier="external"}': 0}),
        (queries.tokens_by_origin(queries.ELSE), {'{tier="computed"}': 7}),
    ],
)
def test_ratios_are_ratios_of_sums_over_replicas(promtool, expression, expected):
    """One replica hits all, one misses all: the ratio is of tokens, not the mean of two ratios."""
    hits = {tier: growth for tier, growth in SPLIT.items() if tier != "computed"}

    inputs = tokens("chat-0", **hits, computed=0) + tokens("chat-1", computed=SPLIT["computed"])
    promtool.check(inputs, chosen(expression), expected)


@pytest.mark.parametrize(
    "expression",
    [
        queries.cached_ratio(),
        queries.served_ratio_by_tier(),
        *(queries.tier_hit_ratio(tier) for tier in Tier),
        queries.ttft_quantile(0.9, queries.TIERS),
        queries.requests_ratio(queries.TIERS),
        queries.agreement_ratio(),
        queries.lost_messages(),
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
    promtool.check(tokens(**SPLIT), chosen(queries.cached_ratio(), window="4m"), {"{}": 0.65})
    promtool.check(tokens(**SPLIT), chosen(queries.cached_ratio(), window="30s"), {})


def test_a_choice_of_endpoint_leaves_others_out(promtool):
    """The board speaks of what is chosen."""
    inputs = tokens(l0=60, computed=60) + tokens("rag-0", "rag", l0=0, computed=600)

    promtool.check(inputs, chosen(queries.cached_ratio(), endpoint="chat"), {"{}": 0.5})
    promtool.check(inputs, chosen(queries.cached_ratio(), endpoint="(chat|rag)"), {"{}": 1 / 12})


def test_fill_is_a_mean_and_a_largest_never_a_sum(promtool):
    """Engines at 80, 60 and 70 % are 70 % on average and 80 % at most, not 210 %."""
    inputs = [
        one
        for number, resident in enumerate((80, 60, 70))
        for one in (
            series(RESIDENT_BLOCKS, f"{resident}x20", tier="l0", holder=f"ns/chat/chat-{number}/0"),
            series(CAPACITY_BLOCKS, "100x20", tier="l0", holder=f"ns/chat/chat-{number}/0"),
        )
    ]

    promtool.check(inputs, chosen(queries.mean_fill_ratio(Tier.L0)), {"{}": 0.7})
    promtool.check(inputs, chosen(queries.highest_fill_ratio(Tier.L0)), {"{}": 0.8})
    promtool.check(inputs, chosen(queries.mean_fill_ratio(Tier.L0), replica="chat-1"), {"{}": 0.6})


def pool(metric, values: str, *, pool: str = "pool") -> list[dict[str, str]]:
    """A reading of a shared pool that three nodes' exporters publish."""
    return [
        series(metric, values, tier="l2", holder=pool, instance=f"node-{number}:9464") for number in range(3)
    ]


def test_a_shared_pool_read_by_three_exporters_is_one_pool(promtool):
    """Its fill is not weighted by how many nodes mount it; two pools are two."""
    inputs = pool(USED_BYTES, "30x20") + pool(CAPACITY_BYTES, "100x20")
    alone = {"tier": "l2", "holder": "other", "instance": "node-9:9464"}
    inputs += [series(USED_BYTES, "90x20", **alone), series(CAPACITY_BYTES, "100x20", **alone)]

    promtool.check(inputs, queries.mean_fill_ratio(Tier.L2), {"{}": 0.6})
    promtool.check(inputs, queries.highest_fill_ratio(Tier.L2), {"{}": 0.9})


def test_cache_servers_of_one_name_on_two_nodes_stay_two(promtool):
    """L1 is a node's own: the exporter tells them apart."""
    inputs = [
        one
        for node, used in (("a", "20x20"), ("b", "40x20"))
        for one in (
            series(USED_BYTES, used, tier="l1", holder="lmcache", instance=node),
            series(CAPACITY_BYTES, "100x20", tier="l1", holder="lmcache", instance=node),
        )
    ]

    promtool.check(inputs, queries.mean_fill_ratio(Tier.L1), {"{}": 0.3})


def test_a_tier_that_reports_no_capacity_has_no_fill(promtool):
    """Unknown is absent, not full and not empty."""
    inputs = [series(USED_BYTES, "20x20", tier="l1", holder="lmcache", instance="a")]

    promtool.check(inputs, queries.mean_fill_ratio(Tier.L1), {})


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

    promtool.check(inputs, chosen(queries.ttft_quantile(0.5, queries.TIERS)), {'{served_from="l0"}': 0.05})
    promtool.check(
        inputs, chosen(queries.ttft_quantile(0.5, queries.ELSE)), {'{served_from="computed"}': 0.3}
    )
    promtool.check(inputs, chosen(queries.requests_ratio(queries.TIERS)), {'{served_from="l0"}': 0.75})
    promtool.check(inputs, chosen(queries.requests_ratio(queries.ELSE)), {'{served_from="computed"}': 0.25})


def evicted(tier: str, holder: str, reason: str, growth: int) -> dict[str, str]:
    """Blocks that leave a holder of a tier, so many a minute."""
    return series(EVICTED_BLOCKS, f"0+{growth}x20", tier=tier, holder=holder, reason=reason)


def test_evictions_are_of_the_engines_chosen_in_l0_and_of_every_holder_below(promtool):
    """An L1 or L2 is shared by endpoints, so no choice of endpoint can part it."""
    inputs = [
        evicted("l0", "ns/chat/chat-0/0", "capacity", 60),
        evicted("l0", "ns/rag/rag-0/0", "capacity", 600),
        evicted("l0", "ns/chat/chat-0/0", "clear", 120),
        evicted("l1", "node-1", "capacity", 180),
        evicted("l1", "node-2", "capacity", 60),
    ]

    promtool.check(
        inputs,
        chosen(queries.evictions_by_reason(Tier.L0), endpoint="chat"),
        {'{reason="capacity"}': 1, '{reason="clear"}': 2},
    )
    promtool.check(
        inputs, chosen(queries.evictions_by_reason(Tier.L1), endpoint="chat"), {'{reason="capacity"}': 4}
    )


def test_a_source_is_up_only_where_every_exporter_reads_it(promtool):
    """One node that cannot reach the shared pool is a fault, whatever the others say."""
    inputs = [
        series(SOURCE_UP, "1x20", source="curvine_master:pool", instance="a"),
        series(SOURCE_UP, "0x20", source="curvine_master:pool", instance="b"),
        series(COMPLETENESS, "1x20", source="feed:a", instance="a"),
        series(COMPLETENESS, "0.75x20", source="feed:a", instance="b"),
    ]

    promtool.check(inputs, queries.source_up(), {'{source="curvine_master:pool"}': 0})
    promtool.check(inputs, queries.completeness(), {'{source="feed:a"}': 0.75})


def test_records_and_the_engines_counters_are_compared_by_their_rates(promtool):
    """A record in ten is lost: nine tenths."""
    inputs = [*tokens(l0=540, computed=540), series(ENGINE_TOKENS, "0+1200x20", **engine(), tier="l0")]

    promtool.check(inputs, chosen(queries.agreement_ratio()), {"{}": 0.9})


def test_what_was_lost_is_told_by_source_and_kind(promtool):
    """What arrived, and sources that lost nothing, take no room."""
    inputs = [
        series(SOURCE_MESSAGES, f"0+{growth}x20", source=source, result=result)
        for source, result, growth in (
            ("feed:a", "received", 600), ("feed:a", "missing", 60), ("feed:b", "missing", 0),
            ("vllm_events:x", "undecodable", 120),
        )
    ]  # fmt: skip

    promtool.check(
        inputs,
        chosen(queries.lost_messages()),
        {'{source="feed:a",result="missing"}': 1, '{source="vllm_events:x",result="undecodable"}': 2},
    )


def test_the_share_by_endpoint_comes_from_recorded_series(promtool, repository):
    """Two replicas of chat and one of rag are two lines, each over its own tokens."""
    inputs = (
        tokens(l0=60, computed=60)
        + tokens("chat-1", l0=60, computed=20)
        + tokens("rag-0", "rag", computed=60)
    )

    promtool.check(
        inputs,
        chosen(queries.cached_ratio_by_endpoint()),
        {'{namespace="ns",endpoint="chat"}': 0.6, '{namespace="ns",endpoint="rag"}': 0},
        rule_files=(str(repository / "dashboards/generated/tierscope-rules.yaml"),),
    )
