"""Pages of every generation of vLLM, DERIVED from what is known of each: one set of series comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.engines import Engines
from exporters.exposition import parse_exposition
from exporters.vllm.page_source import EnginePageSource
from exporters.vllm.parse import parse_engine_page
from exporters.vllm.suspicion import Suspect
from tests.captured import ENGINE
from tests.vllm_pages import RELEASES, Page, Request
from tierscope.domain.events import EngineTokens, TierActivity, TierSample
from tierscope.domain.requests import NO_TOKENS
from tierscope.domain.tiers import Tier

URL = "http://pod-0:8000/metrics"

ALONE = [Request(100), Request(100, l0=96), Request(340, l0=48)]
"""Served by L0 alone: every release can tell all of it."""
TIERED = [*ALONE, Request(500, l0=160, host=64, disk=32)]

each_release = pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)


class Pages:
    """Stands in for a fetcher."""

    def __init__(self, text):
        self.text = text

    def get(self, url):
        return self.text.encode()


def source_of(engines=(ENGINE,)):
    return EnginePageSource(URL, list(engines), Engines(), began_unix_seconds=1e9)


def grown(before: Page, after: Page, engines=(ENGINE,)):
    """What reading one page and then another leads to."""
    source = source_of(engines)
    source.read(Pages(before.text()), 1000.0)
    return source.read(Pages(after.text()), 1010.0)


def idle(page: Page) -> Page:
    return replace(page, engines={engine: [] for engine in page.engines})


def entries(reading, kind):
    return [entry for entry in reading.entries if isinstance(entry, kind)]


def tokens(reading):
    return sum((entry.tokens for entry in entries(reading, EngineTokens)), NO_TOKENS)


@each_release
def test_every_release_gives_the_same_series(release):
    """UD-16: the same workload read from 0.8 to 0.33: equal tokens, lookups, sizes and use."""
    page = Page(release, {"0": ALONE})

    reading = grown(idle(page), page)

    assert not reading.findings
    assert not reading.oddities
    newest = Page(RELEASES["0.33"], {"0": ALONE})
    assert reading.entries == grown(idle(newest), newest).entries
    assert tokens(reading).as_dict() == {
        "prompt": 540, "l0": 144, "l1": 0, "l2": 0, "external": 0, "computed": 396
    }  # fmt: skip
    (lookups,) = entries(reading, TierActivity)
    assert (lookups.lookup_hit_tokens, lookups.lookup_miss_tokens) == (144, 396)
    (sample,) = entries(reading, TierSample)
    assert (sample.capacity_blocks, sample.pinned_blocks, sample.block_tokens) == (1000, 250, 16)


@pytest.mark.parametrize("release", [r for r in RELEASES.values() if r.external], ids=lambda r: r.name)
def test_what_came_through_the_connector_is_told_as_far_as_a_release_knows(release):
    """Its sum from 0.11 on; by tier since 0.32; nothing else moves."""
    page = Page(release, {"0": TIERED})

    split = tokens(grown(idle(page), page))

    assert (split.prompt, split.l0, split.computed) == (1040, 304, 640)
    told = (split.l1, split.l2, split.external)
    assert told == ((64, 32, 0) if release.cached_by_source else (0, 0, 96))


@each_release
@pytest.mark.parametrize("total", ["", "_total", "_total_total"])
def test_a_counter_is_one_series_however_its_name_ends(release, total):
    """UD-17: names without `_total`, with it and with two of it resolve to one."""
    page = Page(release, {"0": TIERED if release.external else ALONE}, total=total)
    usual = replace(page, total="_total")

    assert grown(idle(page), page).entries == grown(idle(usual), usual).entries


@each_release
def test_a_page_of_several_processes_reads_the_same(release):
    """Without `_created` and the process's own metrics nothing is missing but the time of the beginning."""
    page = Page(release, {"0": ALONE}, created=None)

    reading = grown(idle(page), page)

    assert tokens(reading).prompt == 540
    assert not reading.restarted


@pytest.mark.parametrize("release", [r for r in RELEASES.values() if r.engine_label], ids=lambda r: r.name)
def test_ranks_behind_one_page_are_kept_apart(release):
    """Two data-parallel ranks, each with its own tokens and the size of its own L0."""
    page = Page(release, {"0": ALONE, "1": ALONE[:1]})
    engines = (ENGINE, replace(ENGINE, rank=1))

    reading = grown(idle(page), page, engines)

    assert {e.engine.rank: e.tokens.prompt for e in entries(reading, EngineTokens)} == {0: 540, 1: 100}
    assert [sample.capacity_blocks for sample in entries(reading, TierSample)] == [1000, 1000]
    assert (reading.units.received, reading.units.missing) == (2, 0)


def test_a_rank_that_is_not_on_the_page_is_missing():
    """UD-28: two ranks told of four are two of four."""
    page = Page(RELEASES["0.33"], {"0": ALONE, "1": ALONE})
    source = source_of([replace(ENGINE, rank=rank) for rank in range(4)])

    reading = source.read(Pages(page.text()), 1000.0)

    assert (reading.units.received, reading.units.missing) == (2, 2)
    assert source.units == 4


def test_several_models_on_one_page_are_kept_apart():
    """Pages of two engines behind one address: two models, each with its own counters."""
    pages = [Page(RELEASES["0.33"], {"0": ALONE}, model=model) for model in ("a", "b")]
    source = source_of()
    source.read(Pages("".join(idle(page).text() for page in pages)), 1000.0)

    reading = source.read(Pages("".join(page.text() for page in pages)), 1010.0)

    assert {e.model: e.tokens.prompt for e in entries(reading, EngineTokens)} == {"a": 540, "b": 540}


def test_a_label_that_a_later_release_adds_is_summed_over():
    """Series that only differ in a label we do not know are parts of one number."""
    page = Page(RELEASES["0.33"], {"0": ALONE})
    text = page.text()
    parts = [text.replace("model_name=", f'priority="{p}",model_name=') for p in ("high", "low")]
    source = source_of()
    source.read(Pages(idle(page).text()), 1000.0)

    assert tokens(source.read(Pages("".join(parts)), 1010.0)).prompt == 2 * 540


@each_release
def test_growth_is_never_negative_over_a_restart(release):
    """Counters that begin anew are a restart: what the new life counted is growth, nothing is taken back."""
    page = Page(release, {"0": ALONE})
    again = replace(page, engines={"0": ALONE[:1]}, created=1.8e9)
    source = source_of()
    for at, text in enumerate([idle(page).text(), page.text()]):
        source.read(Pages(text), 1000.0 + at)

    reading = source.read(Pages(again.text()), 1010.0)

    assert reading.restarted
    assert tokens(reading).as_dict()["prompt"] == 100


def test_the_run_between_two_readings_has_its_own_hit_ratio():
    """UD-15: 1,000 of 2,000 tokens before and 1,600 of 3,000 after are 600 of 1,000 in between."""
    before = [Request(2000, l0=1000)]
    page = Page(RELEASES["0.31"], {"0": before})
    after = replace(page, engines={"0": [*before, Request(1000, l0=600)]})

    (lookups,) = entries(grown(page, after), TierActivity)

    assert (lookups.lookup_hit_tokens, lookups.lookup_miss_tokens) == (600, 400)


def test_blocks_in_use_are_not_blocks_that_hold_a_prefix():
    """UD-29: a usage of 1.0 says that requests pin every block, nothing of how full the cache is."""
    page = Page(RELEASES["0.31"], {"0": ALONE}, usage=1.0)

    (sample,) = entries(grown(idle(page), page), TierSample)

    assert sample.tier is Tier.L0
    assert sample.pinned_blocks == 1000
    assert sample.used_blocks is None


def test_blocks_in_use_and_tokens_in_them_are_two_figures():
    """UD-29: 66.7 % of the blocks and 36.5 % of the tokens: the engine's figure of tokens is no blocks."""
    page = Page(RELEASES["0.33"], {"0": ALONE}, usage=0.667)
    text = page.text() + 'vllm:kv_cache_token_usage_perc{engine="0",model_name="m"} 0.365\n'

    samples = entries(source_of().read(Pages(text), 1000.0), TierSample)

    assert [(sample.pinned_blocks, sample.used_blocks) for sample in samples] == [(667, None)]


def test_the_histogram_of_steps_is_not_a_counter():
    """`iteration_tokens_total` ends like a counter, and enters no sum whatever it holds."""
    page = Page(RELEASES["0.33"], {"0": ALONE})
    text = page.text().replace("vllm:iteration_tokens_total_sum", "vllm:iteration_tokens_total")

    counters = parse_engine_page(parse_exposition(text, where=URL), where=URL).counters

    assert sum(counters[0].at_first_token.values()) == 540


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
def test_names_nobody_knows_are_named_and_the_rest_is_read(release):
    """UD-16: a generation to come renames its counters: a warning says which are gone and what came."""
    page = Page(release, {"0": ALONE})
    text = page.text().replace("prefix_cache_hits", "prefix_cache_reused")

    reading = source_of().read(Pages(text), 1000.0)

    (finding,) = reading.findings
    assert finding.kind == "unknown_metric_generation"
    assert "vllm:prefix_cache_hits_total" in finding.error.what
    assert "prefix_cache_reused" in finding.error.what
    assert entries(reading, TierSample)


def test_a_renamed_prompt_counter_leaves_what_can_be_read():
    """Without the prompt's total its parts are enough."""
    page = Page(RELEASES["0.33"], {"0": ALONE})
    rename = "vllm:prompt_tokens_total", "vllm:input_tokens_total"
    source = source_of()
    source.read(Pages(idle(page).text().replace(*rename)), 1000.0)

    reading = source.read(Pages(page.text().replace(*rename)), 1010.0)

    assert tokens(reading).prompt == 540
    assert [finding.kind for finding in reading.findings] == ["unknown_metric_generation"]


def test_the_captured_pages_are_of_a_known_generation_and_lie_in_one_way_only(captures):
    """UD-03: real pages of 0.32: the prompt_logprobs request shows where there is a connector to be asked."""
    for run in (captures / "vllm").glob("run-*"):
        assert _findings(run) == []
    for run in ("a_alone", "b_offloading", "c_lmcache_mp"):
        assert _findings(captures / "observer" / run) == [Suspect.EXTERNAL_SKIPPING]


def _findings(run):
    text = (run / "metrics_after.txt").read_text("utf-8")
    page = parse_engine_page(parse_exposition(text, where="page"), where="page")
    return [finding.kind for finding in page.findings]


workloads = st.lists(
    st.builds(
        lambda prompt, l0, host: Request(
            prompt, l0=min(l0, prompt), host=min(host, prompt - min(l0, prompt))
        ),
        st.integers(1, 3000),
        st.integers(0, 2000),
        st.integers(0, 1000),
    ),
    max_size=6,
)


@given(before=workloads, more=workloads, release=st.sampled_from(list(RELEASES.values())))
def test_whatever_was_served_the_split_adds_up_in_every_release(before, more, release):
    """Prompts and L0's share are exact between any two readings at rest; the split adds up by its type."""
    page = Page(release, {"0": before})
    after = replace(page, engines={"0": [*before, *more]})

    split = tokens(grown(page, after))

    assert split.prompt == sum(request.prompt for request in more)
    assert split.l0 == sum(request.l0 for request in more)
