"""Engines' own figures are right at known inputs, whatever their release calls them."""

from __future__ import annotations

import pytest

from dashboards.promql import RATE_INTERVAL
from dashboards.queries import engines
from tierscope.domain.errors import BadInput
from tierscope.registry import engine_metrics as rows

pytestmark = pytest.mark.system

NAMES = ("prefix_cache", "gpu_prefix_cache")


def asked(expression: str, **variables: str) -> str:
    """An expression as Grafana would send it, with everything chosen but what `variables` name."""
    for name in ("cluster", "namespace", "model_name", "instance"):
        expression = expression.replace(f"${name}", variables.get(name, ".*"))
    return expression.replace(RATE_INTERVAL, "4m")


def grows(name: str, a_minute: int, instance: str = "e0", **labels: str) -> dict[str, str]:
    """One series of a scraped engine that grows by so much a minute."""
    inner = {"model_name": "m", "instance": instance, **labels}
    text = ",".join(f'{label}="{value}"' for label, value in inner.items())
    return {"series": f"{name}{{{text}}}", "values": f"0+{a_minute}x20"}


@pytest.mark.parametrize("ending", ["_total", "", "_total_total"])
@pytest.mark.parametrize("family", NAMES)
def test_the_hit_ratio_has_one_meaning_under_every_name(promtool, family, ending):
    """UD-16, UD-17: renamed, without `_total`, or with two of it."""
    inputs = [grows(f"vllm:{family}_hits{ending}", 30), grows(f"vllm:{family}_queries{ending}", 120)]

    promtool.check(inputs, asked(engines.l0_hit_ratio()), {'{model_name="m"}': 0.25})


def test_an_engine_that_has_both_names_counts_once(promtool):
    """As releases had while they renamed; an engine of another release beside it is counted under its own."""
    inputs = [
        grows(f"vllm:{family}_{part}_total", growth, instance)
        for family, instance in (
            ("prefix_cache", "e0"),
            ("gpu_prefix_cache", "e0"),
            ("gpu_prefix_cache", "e1"),
        )
        for part, growth in (("hits", 60), ("queries", 120))
    ]

    promtool.check(inputs, asked(engines.by_model(rows.QUERIES)), {'{model_name="m"}': 4})
    promtool.check(inputs, asked(engines.by_model(rows.QUERIES), instance="e1"), {'{model_name="m"}': 2})


def test_what_the_connector_offered_is_of_what_l0_left_over(promtool):
    """Not of what the engine says it asked for, which in some releases is the whole prompt."""
    inputs = [
        grows("vllm:prefix_cache_queries_total", 1000),
        grows("vllm:prefix_cache_hits_total", 600),
        grows("vllm:external_prefix_cache_queries_total", 1000),
        grows("vllm:external_prefix_cache_hits_total", 200),
    ]

    promtool.check(inputs, asked(engines.connector_hit_ratio()), {'{model_name="m"}': 0.5})


def test_without_a_connector_there_is_no_hit_ratio_of_one(promtool):
    """VLLM exports its counters all the same: they stand still, and that is not a ratio of 0."""
    inputs = [
        grows("vllm:prefix_cache_queries_total", 1000),
        grows("vllm:prefix_cache_hits_total", 600),
        grows("vllm:external_prefix_cache_queries_total", 0),
        grows("vllm:external_prefix_cache_hits_total", 0),
    ]

    promtool.check(inputs, asked(engines.connector_hit_ratio()), {})


def test_usage_is_a_mean_and_a_largest_never_a_sum(promtool):
    """UD-22: three engines at 80, 60 and 70 %, of two generations, are 70 % and 80 % at most."""
    inputs = [
        {"series": f'vllm:{name}{{model_name="m",instance="e{number}"}}', "values": f"{used}x20"}
        for number, (name, used) in enumerate(
            (("gpu_cache_usage_perc", 0.8), ("kv_cache_usage_perc", 0.6), ("kv_cache_usage_perc", 0.7))
        )
    ]

    promtool.check(inputs, asked(engines.usage("avg")), {'{model_name="m"}': 0.7})
    promtool.check(inputs, asked(engines.usage("max")), {'{model_name="m"}': 0.8})


def test_l2_of_a_cache_server_is_of_what_l1_did_not_have(promtool):
    """Over models and salts together; without lookups there is nothing."""
    inputs = [
        grows(f"lmcache_mp_lookup_{name}_tokens_total", growth, cache_salt=salt)
        for salt in ("", "s")
        for name, growth in (("requested", 1000), ("hit_l1", 600), ("hit_l2", 100))
    ]
    l2 = asked(engines.server_hit_ratio(rows.SERVER_HIT_L2, rows.SERVER_HIT_L1))

    promtool.check(inputs, asked(engines.server_hit_ratio(rows.SERVER_HIT_L1)), {"{}": 0.6})
    promtool.check(inputs, l2, {"{}": 0.25})
    promtool.check([], l2, {})


def test_workers_of_one_engine_count_the_same_evictions(promtool):
    """Two tensor-parallel workers tell each chunk once each: one engine's count, summed over engines."""
    inputs = [
        grows("lmcache:local_cpu_evict_keys_count_total", growth, instance, worker_id=worker)
        for instance, worker, growth in (("e0", "0", 60), ("e0", "1", 60), ("e1", "0", 120))
    ]

    promtool.check(inputs, asked(engines.of_one_worker(rows.INSIDE_L1_EVICTED)), {"{}": 3})


def test_a_family_is_asked_for_as_what_it_is():
    """A rate of a gauge would be a number without meaning."""
    for ask in (
        lambda: engines.rate_of(rows.USAGE, {}),
        lambda: engines.gauge_of(rows.HITS, {}),
        lambda: engines.part_rate(rows.HITS, "_sum", {}),
    ):
        with pytest.raises(BadInput, match="not a"):
            ask()
