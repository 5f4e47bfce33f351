"""An engine's page as prompt counters and cache sizes, over the releases of the engine."""

from __future__ import annotations

import pytest

from exporters.exposition import parse_exposition
from exporters.vllm.parse import parse_engine_page
from tierscope.domain.tiers import Origin

CURRENT = """
process_start_time_seconds 1.7e9
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.71e9
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 500
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 300
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 200
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="device"} 320
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="host"} 120
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="disk"} 70
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="p2p"} 7
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="external_unspecified"} 3
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1100
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 320
"""

OLDER = """
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000
vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 1000
vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 300
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 200
"""


def parsed(text):
    return parse_engine_page(parse_exposition(text, where="page"), where="page")


def only_counters(text):
    (counters,) = parsed(text).counters
    return counters


def test_a_current_page_splits_what_came_through_the_connector():
    """Host is L1, disk L2, peers and the unspecified are external; the device's hits are not asked twice."""
    counters = only_counters(CURRENT)

    assert counters.at_first_token == {Origin.COMPUTED: 500, Origin.L0: 300, Origin.EXTERNAL: 200}
    assert counters.vague is Origin.EXTERNAL
    assert counters.at_admission == {Origin.L1: 120, Origin.L2: 70, Origin.EXTERNAL: 10}
    assert (counters.queries, counters.hits) == (1100, 320)


def test_a_page_without_tiers_leaves_the_connectors_tokens_external():
    """Releases from 0.16 to 0.31 say that tokens came through the connector, not from where."""
    text = "\n".join(line for line in CURRENT.splitlines() if "cached_by_source" not in line)

    counters = only_counters(text)

    assert counters.at_first_token[Origin.EXTERNAL] == 200
    assert counters.at_admission == {}


def test_an_older_page_is_split_by_its_hit_counters():
    """Before 0.16 only the prompt is counted at the first token; names of 0.11 and before are understood."""
    counters = only_counters(OLDER)

    assert counters.at_first_token == {Origin.COMPUTED: 1000}
    assert counters.vague is Origin.COMPUTED
    assert counters.at_admission == {Origin.L0: 300, Origin.EXTERNAL: 200}
    assert (counters.queries, counters.hits) == (1000, 300)


def test_the_beginning_of_the_counters_is_told_by_them_or_by_the_process():
    """`_created` is nearest, the start of the process stands in; several API servers print neither."""
    without_created = "\n".join(line for line in CURRENT.splitlines() if "_created" not in line)

    assert only_counters(CURRENT).created_unix_seconds == 1.71e9
    assert only_counters(without_created).created_unix_seconds == 1.7e9
    assert only_counters(OLDER).created_unix_seconds is None


def test_models_and_ranks_on_one_page_are_kept_apart():
    """Two ranks and two models behind one API server are four sets of counters."""
    text = "\n".join(
        f'vllm:prompt_tokens_total{{engine="{rank}",model_name="{model}"}} {rank}{i}'
        for rank in (1, 2)
        for i, model in enumerate(("a", "b"))
    )

    found = {(c.model, c.engine_label): c.at_first_token[Origin.COMPUTED] for c in parsed(text).counters}

    assert found == {("a", "1"): 10, ("b", "1"): 11, ("a", "2"): 20, ("b", "2"): 21}


@pytest.mark.parametrize("run", ["run-a-prefix-cache", "run-b-offload-tiers", "run-c-data-parallel"])
def test_the_size_of_l0_is_of_one_engine_without_the_null_block(captures, run):
    """64 blocks each, of which 63 can hold a prefix; with two ranks vLLM prints the sum as num_gpu_blocks."""
    page = parsed((captures / "vllm" / run / "metrics_after.txt").read_text("utf-8"))

    assert {(config.block_tokens, config.blocks) for config in page.configs} == {(32, 63)}
    assert len(page.configs) == len(page.counters)


def test_without_the_size_in_tokens_the_sum_of_blocks_is_shared_by_the_ranks():
    """Older releases have the sum alone."""
    text = "\n".join(
        f'vllm:cache_config_info{{engine="{rank}",block_size="16",num_gpu_blocks="202"}} 1' for rank in (0, 1)
    )

    assert [config.blocks for config in parsed(text).configs] == [100, 100]


def test_a_config_that_says_none_is_absent():
    """What an engine does not know it prints as None."""
    (config,) = parsed('vllm:cache_config_info{engine="0",block_size="None",num_gpu_blocks="None"} 1').configs

    assert (config.block_tokens, config.blocks) == (None, None)


def test_a_source_nobody_knows_is_external_and_named():
    """A newer release's tier is counted as unknown, by name."""
    page = parsed(CURRENT.replace('source="p2p"', 'source="tape"'))

    (oddity,) = page.oddities
    assert oddity.what == "source tape"
    assert page.counters[0].at_admission[Origin.EXTERNAL] == 10


def test_a_page_that_is_no_engines_has_no_counters():
    """Another program's metrics give none; who asked for the page says so."""
    assert parsed("capacity 5\nsomething 6").counters == ()


def test_values_that_are_no_counts_are_absent():
    """NaN, infinite and negative values enter no sum."""
    text = CURRENT.replace('source="host"} 120', 'source="host"} NaN').replace('"disk"} 70', '"disk"} -1')

    assert only_counters(text).at_admission == {Origin.EXTERNAL: 10}


def test_garbage_lines_are_handed_on_as_an_oddity():
    """The page's broken line is told with its count, and the rest is used."""
    page = parsed(CURRENT + "\nvllm:broken{ 1\nvllm:broken{ 1")

    (oddity,) = page.oddities
    assert (oddity.what, oddity.count) == ("unreadable metric line", 2)
    assert len(page.counters) == 1
