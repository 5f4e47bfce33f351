"""One API server's page for all the engines behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.engines import Engines
from exporters.vllm.events import BlocksStored, ChangeBatch
from exporters.vllm.page_source import EnginePageSource
from exporters.vllm.residency import Residency
from tests.captured import ENGINE
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import CounterState, EngineTokens, TierActivity, TierSample
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Tier

URL = "http://pod-0:8000/metrics"


class Page:
    """Stands in for a fetcher: one page, whatever the address."""

    def __init__(self, text=""):
        self.text = text

    def get(self, url):
        assert url == URL
        return self.text.encode()


@pytest.fixture
def engines():
    return Engines()


@pytest.fixture
def source(engines):
    return EnginePageSource(URL, [ENGINE], engines, began_unix_seconds=1000.0)


def counters(computed, *, model="m", engine="0", created=1.0):
    labels = f'engine="{engine}",model_name="{model}"'
    return "\n".join(
        [
            f"vllm:prompt_tokens_total{{{labels}}} {computed}",
            f"vllm:prompt_tokens_created{{{labels}}} {created}",
            f'vllm:prompt_tokens_by_source_total{{{labels},source="local_compute"}} {computed}',
            f"vllm:prefix_cache_queries_total{{{labels}}} {computed}",
            f"vllm:prefix_cache_hits_total{{{labels}}} 0",
            "",
        ]
    )


def read(source, text, at=1010.0):
    return source.read(Page(text), at)


def tokens(reading):
    return {
        (entry.engine.rank, entry.model): entry.tokens.prompt
        for entry in reading.entries
        if isinstance(entry, EngineTokens)
    }


def engine_tokens(since, at, computed, total):
    stand = CounterState(1.0, tuple(TokenSplit(total, computed=total).as_dict().values()))
    return EngineTokens(ENGINE, "m", since, at, TokenSplit(computed, computed=computed), stand)


def lookups(since, at, missed, total):
    return TierActivity(Tier.L0, str(ENGINE), since, at, 0, missed, total=CounterState(1.0, (0, total)))


def test_growth_between_two_readings_is_handed_on_with_its_span(source):
    """Tokens and lookups since the last reading, and in all; nothing where nothing grew."""
    read(source, counters(100))

    reading = read(source, counters(130), at=1015.0)

    assert reading.entries == [
        engine_tokens(1010.0, 1015.0, 30, total=130),
        lookups(1010.0, 1015.0, 30, total=130),
    ]
    assert read(source, counters(130), at=1020.0).entries == []


def test_a_first_reading_says_what_the_counters_stand_at(source):
    """Nobody saw them grow; whoever knew them before can tell by how much they did."""
    assert read(source, counters(100)).entries == [
        engine_tokens(1010.0, 1010.0, 0, total=100),
        lookups(1010.0, 1010.0, 0, total=100),
    ]


def test_counters_that_do_not_say_when_they_began_have_no_total(source):
    """Several API servers on one page: nobody knows of two readings that they are of one life."""
    page = "\n".join(line for line in counters(100).splitlines() if "created" not in line) + "\n"

    assert read(source, page).entries == []
    assert [entry.total for entry in read(source, page.replace("100", "130")).entries] == [None, None]


def test_an_engine_that_began_after_us_counts_from_zero(source):
    """Its first page is all news: we were there before it."""
    assert tokens(read(source, counters(70, created=1005.0))) == {(0, "m"): 70}


def test_a_model_that_appears_on_a_known_page_counts_from_zero(source):
    """A label set that was not there before began at zero."""
    read(source, counters(100))

    reading = read(source, counters(100) + counters(40, model="lora"))

    assert tokens(reading) == {(0, "lora"): 40}


def test_a_restart_is_told(source):
    """The page's incarnation changes with the engine's."""
    read(source, counters(100))

    restarted = read(source, counters(10, created=1011.0), at=1020.0)

    assert restarted.restarted
    assert tokens(restarted) == {(0, "m"): 10}
    assert restarted.findings == []


def test_each_rank_gets_its_own_series(engines):
    """Two ranks are known; a third that turns up beside them is the same replica's."""
    known = [ENGINE, replace(ENGINE, rank=1)]
    source = EnginePageSource(URL, known, engines, began_unix_seconds=0.0)

    reading = read(source, "".join(counters(10 + rank, engine=rank) for rank in range(3)))

    assert tokens(reading) == {(0, "m"): 10, (1, "m"): 11, (2, "m"): 12}


def test_a_rank_behind_an_api_server_of_its_own_is_the_one_that_is_meant(engines):
    """With an external load balancer each rank has its own page, on which it may be called 0."""
    source = EnginePageSource(URL, [replace(ENGINE, rank=3)], engines, began_unix_seconds=0.0)

    assert tokens(read(source, counters(10))) == {(3, "m"): 10}


def test_an_engine_label_that_is_no_rank_is_named_and_left_out(source):
    """Nobody knows whose series these are."""
    reading = read(source, counters(10) + counters(10, engine="decode-a"))

    assert [oddity.what for oddity in reading.oddities] == ["engine label that is no rank"]


def test_the_size_and_fill_of_l0_come_from_the_page_and_the_events(source, engines):
    """The engine's own usage gauge counts blocks in use only; what holds a prefix is told by the events."""
    facts = engines.facts(ENGINE)
    facts.residency = Residency(str(ENGINE), "events")
    stored = [BlocksStored((1, 2, 3), "GPU", 0, None, 16), BlocksStored((1,), "CPU", 0, None, 16)]
    facts.residency.apply(ChangeBatch(1.0, tuple(stored), 0))
    config = 'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="101"} 1\n'

    reading = read(source, counters(10) + config)

    assert [entry for entry in reading.entries if isinstance(entry, TierSample)] == [
        TierSample(
            Tier.L0,
            str(ENGINE),
            1010.0,
            capacity_blocks=100,
            used_blocks=3,
            block_tokens=16,
            duplicate_blocks=0,
            orphan_blocks=0,
        ),
        TierSample(
            Tier.L1, str(ENGINE), 1010.0, used_blocks=1, block_tokens=16, duplicate_blocks=0, orphan_blocks=0
        ),
    ]
    assert (facts.model, facts.block_tokens) == ("m", 16)


def test_the_blocks_of_a_tier_have_the_size_that_its_events_tell(source, engines):
    """UD-34: 64 names of four tokens are one block of 256, not 64 of them; the page's size is L0's alone."""
    facts = engines.facts(ENGINE)
    facts.residency = Residency(str(ENGINE), "events")
    stored = [
        BlocksStored((64,), "GPU", 0, None, 256),
        BlocksStored(tuple(range(1, 65)), "CPU", 0, None, 4),
    ]
    facts.residency.apply(ChangeBatch(1.0, tuple(stored), 0))
    config = 'vllm:cache_config_info{engine="0",block_size="256",num_gpu_blocks="101"} 1\n'

    reading = read(source, counters(10) + config)

    samples = [entry for entry in reading.entries if isinstance(entry, TierSample)]
    assert {each.tier: each.used_blocks * each.block_tokens for each in samples} == {
        Tier.L0: 256,
        Tier.L1: 256,
    }


def test_a_page_that_is_no_engines_is_unreadable(source):
    """Another program under the address is a source that is down, not an engine without traffic."""
    with pytest.raises(SourceUnreadable) as caught:
        read(source, "capacity 5\n")

    assert caught.value.where == URL
