"""What the other numbers rest on is told by kind, and by name where something is wrong."""

from __future__ import annotations

import pytest

from dashboards.queries import sources, tiers
from tests.promtool_cases import chosen, series
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import COMPLETENESS, SOURCE_MESSAGES, SOURCE_UP

pytestmark = pytest.mark.system


def test_a_source_is_up_only_where_every_exporter_reads_it(promtool):
    """One node that cannot reach the shared pool is a fault, whatever the others say."""
    inputs = [
        series(SOURCE_UP, "1x20", source="curvine_master:pool", instance="a"),
        series(SOURCE_UP, "0x20", source="curvine_master:pool", instance="b"),
        series(COMPLETENESS, "1x20", source="feed:a", instance="a"),
        series(COMPLETENESS, "0.75x20", source="feed:a", instance="b"),
    ]

    promtool.check(inputs, chosen(sources.kinds_up()), {'{kind="curvine_master"}': 0})
    promtool.check(inputs, chosen(sources.sources_down(50)), {'{source="curvine_master:pool"}': 0})
    promtool.check(inputs, chosen(sources.completeness_by_kind()), {'{kind="feed"}': 0.75})
    promtool.check(inputs, chosen(sources.least_complete(10)), {'{source="feed:a"}': 0.75})


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
        chosen(sources.lost_messages(10)),
        {'{source="feed:a",result="missing"}': 1, '{source="vllm_events:x",result="undecodable"}': 2},
    )


def test_a_cache_server_that_refuses_is_down_and_has_no_hits(promtool):
    """UD-19: not a hit ratio of 0 for L1, which would be believed."""
    inputs = [series(SOURCE_UP, "0x20", source="lmcache_metrics:node-1", instance="a")]

    promtool.check(inputs, chosen(sources.sources_down(50)), {'{source="lmcache_metrics:node-1"}': 0})
    promtool.check(inputs, chosen(tiers.lookup_hit_ratio(Tier.L1)), {})
    promtool.check(inputs, chosen(tiers.lookups(Tier.L1)), {})
