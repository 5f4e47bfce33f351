"""What tiers hold and lose is right at known inputs, and nothing where there is nothing to tell."""

from __future__ import annotations

import pytest

from dashboards.queries import tiers
from tests.promtool_cases import chosen, series
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import EVICTED_AGE
from tierscope.registry.metrics import (
    CAPACITY_BLOCKS,
    CAPACITY_BYTES,
    EVICTED_BLOCKS,
    LOOKUP_TOKENS,
    RESIDENT_BLOCKS,
    USED_BYTES,
)

pytestmark = pytest.mark.system


def test_fill_is_a_mean_and_a_largest_never_a_sum(promtool):
    """UD-22: engines at 80, 60 and 70 % are 70 % on average and 80 % at most, not 210 %."""
    inputs = [
        one
        for number, resident in enumerate((80, 60, 70))
        for one in (
            series(RESIDENT_BLOCKS, f"{resident}x20", tier="l0", holder=f"ns/chat/chat-{number}/0"),
            series(CAPACITY_BLOCKS, "100x20", tier="l0", holder=f"ns/chat/chat-{number}/0"),
        )
    ]

    promtool.check(inputs, chosen(tiers.mean_fill_ratio(Tier.L0)), {"{}": 0.7})
    promtool.check(inputs, chosen(tiers.highest_fill_ratio(Tier.L0)), {"{}": 0.8})
    promtool.check(inputs, chosen(tiers.mean_fill_ratio(Tier.L0), replica="chat-1"), {"{}": 0.6})


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

    promtool.check(inputs, chosen(tiers.mean_fill_ratio(Tier.L2)), {"{}": 0.6})
    promtool.check(inputs, chosen(tiers.highest_fill_ratio(Tier.L2)), {"{}": 0.9})


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

    promtool.check(inputs, chosen(tiers.mean_fill_ratio(Tier.L1)), {"{}": 0.3})


def test_a_tier_that_reports_no_capacity_has_no_fill(promtool):
    """Unknown is absent, not full and not empty."""
    inputs = [series(USED_BYTES, "20x20", tier="l1", holder="lmcache", instance="a")]

    promtool.check(inputs, chosen(tiers.mean_fill_ratio(Tier.L1)), {})


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
        chosen(tiers.evictions_by_reason(Tier.L0), endpoint="chat"),
        {'{reason="capacity"}': 1, '{reason="clear"}': 2},
    )
    promtool.check(
        inputs, chosen(tiers.evictions_by_reason(Tier.L1), endpoint="chat"), {'{reason="capacity"}': 4}
    )


def test_a_tiers_content_is_replaced_as_fast_as_it_evicts_for_room(promtool):
    """600 blocks that lose one a second are replaced in ten minutes; what a clear took is no pressure."""
    inputs = [
        *pool(RESIDENT_BLOCKS, "600x20"),
        evicted("l2", "pool", "pool_removed", 60),
        evicted("l2", "pool", "clear", 6000),
    ]

    promtool.check(inputs, chosen(tiers.turnover_seconds(Tier.L2)), {"{}": 600})
    promtool.check(inputs[:-2], chosen(tiers.turnover_seconds(Tier.L2)), {})


def test_lookups_are_of_the_tier_and_of_all_its_holders(promtool):
    """Found and not found, and their ratio; a tier without lookups has none."""
    inputs = [
        series(LOOKUP_TOKENS, f"0+{growth}x20", tier="l1", holder=holder, result=result)
        for holder, result, growth in (("node-1", "hit", 60), ("node-1", "miss", 60), ("node-2", "miss", 120))
    ]

    promtool.check(inputs, chosen(tiers.lookups(Tier.L1)), {'{result="hit"}': 1, '{result="miss"}': 3})
    promtool.check(inputs, chosen(tiers.lookup_hit_ratio(Tier.L1)), {"{}": 0.25})
    promtool.check(inputs, chosen(tiers.lookup_hit_ratio(Tier.L2)), {})


def test_age_at_eviction_is_of_what_was_evicted_for_room(promtool):
    """The middle of the bucket that all fell into; nothing where nothing was evicted."""
    inputs = [
        series(EVICTED_AGE, f"0+{growth}x20", part="_bucket", tier="l1", holder="node-1", le=edge)
        for edge, growth in (("10", 0), ("20", 60), ("+Inf", 60))
    ]

    promtool.check(inputs, chosen(tiers.evicted_age(Tier.L1, 0.5)), {"{}": 15})
    promtool.check(inputs, chosen(tiers.evicted_age(Tier.L0, 0.5)), {})


def test_the_fullest_holders_have_names(promtool):
    """The two of three that have least room; cache servers of one name are told apart by their exporter."""
    inputs = [
        one
        for node, used in (("a", 20), ("b", 90), ("c", 50))
        for one in (
            series(USED_BYTES, f"{used}x20", tier="l1", holder="lmcache", instance=node),
            series(CAPACITY_BYTES, "100x20", tier="l1", holder="lmcache", instance=node),
        )
    ]

    promtool.check(
        inputs,
        chosen(tiers.fullest(Tier.L1, 2)),
        {'{holder="lmcache",instance="b"}': 0.9, '{holder="lmcache",instance="c"}': 0.5},
    )
