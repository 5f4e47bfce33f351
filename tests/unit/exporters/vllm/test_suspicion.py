"""Counters that are known to lie: told by their contradictions, named, and not used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.exposition import parse_exposition
from exporters.vllm.counters import EngineCounters
from exporters.vllm.parse import parse_engine_page
from exporters.vllm.readings import read_engines
from exporters.vllm.suspicion import Suspect
from tests.vllm_pages import RELEASES, Page, Request
from tierscope.domain.requests import TokenSplit
from tierscope.domain.severity import Severity

THIRDS = [Request(1000, l0=600, host=200)]
"""1,000 tokens: 600 from L0, 200 of the 400 left over through the connector, 200 computed."""
RANDOM = [Request(1024) for _ in range(40)]


def exposition(page):
    return parse_exposition(page.text(), where="page")


def parsed(page):
    return parse_engine_page(exposition(page), where="page")


def kinds(page):
    return [finding.kind for finding in parsed(page).findings]


def growth(page):
    """What the page's workload adds to an engine that had served nothing."""
    counters = EngineCounters()
    counters.advance(parsed(replace(page, engines={"0": []})).counters[0])
    return counters.advance(parsed(page).counters[0])


@pytest.mark.parametrize("release", ["0.14", "0.16", "0.31", "0.32"])
def test_a_sound_page_raises_no_suspicion(release):
    """UD-01: L0 was asked for 1,000, the connector for 400 and had 200: 50 %."""
    page = Page(RELEASES[release], {"0": THIRDS})
    (reading,) = read_engines(exposition(page))

    assert kinds(page) == []
    assert (reading.queries, reading.left_over, reading.external_queries) == (1000, 400, 400)
    assert reading.external_hits / reading.left_over == 0.5


def test_connector_queries_that_count_whole_prompts_are_named_and_not_used():
    """UD-01: below the fix the connector seems asked for 1,000; split and 50 % come out all the same."""
    page = Page(RELEASES["0.11.2"], {"0": THIRDS}, asked="whole_prompt")

    (finding,) = parsed(page).findings

    assert finding.kind == Suspect.EXTERNAL_WHOLE_PROMPT
    assert finding.severity is Severity.WARNING
    assert "hit ratio 50%, not 20%" in finding.error.fix
    assert growth(page).tokens == TokenSplit(1000, l0=600, external=200, computed=200)


def test_connector_queries_that_count_a_request_twice_are_named_and_not_used():
    """UD-02: an asynchronous load recorded twice halves the hit ratio; all of the 1,000 left over hit."""
    page = Page(RELEASES["0.11.2"], {"0": [Request(1000, host=1000)]}, asked="twice")

    (finding,) = parsed(page).findings

    assert finding.kind == Suspect.EXTERNAL_TWICE
    assert "hit ratio 100%, not 50%" in finding.error.fix
    assert growth(page).tokens == TokenSplit(1000, external=1000)


def test_connector_queries_that_cannot_be_right_are_named_even_where_the_cause_is_not_clear():
    """UD-02: between what L0 left over and the whole prompts it may be either fault of the old releases."""
    assert kinds(Page(RELEASES["0.11.2"], {"0": [*THIRDS, Request(400, l0=320)]}, asked="twice")) == [
        Suspect.EXTERNAL_TOO_MANY
    ]


def test_requests_that_skip_the_cache_are_in_neither_denominator():
    """UD-03: 3 requests of 401 tokens with prompt_logprobs: L0 and connector are judged on the other one."""
    skipping = [Request(401, skip=True)] * 3
    page = Page(RELEASES["0.32"], {"0": [*THIRDS, *skipping]}, asked="skipping_too")
    (reading,) = read_engines(exposition(page))

    (finding,) = parsed(page).findings

    assert finding.kind == Suspect.EXTERNAL_SKIPPING
    assert finding.severity is Severity.INFO
    assert (reading.queries, reading.left_over, reading.external_queries) == (1000, 400, 1603)
    grown = growth(page)
    assert (grown.queries, grown.hits) == (1000, 600)
    assert grown.tokens == TokenSplit(2203, l0=600, l1=200, computed=1403)


def test_recomputation_after_preemptions_is_no_hit():
    """UD-05: random prompts, preempted and looked up again: a hit ratio of 32 % is told but not believed."""
    again = [replace(request, l0=800, lookups=2) for request in RANDOM]
    page = Page(RELEASES["0.10.2"], {"0": again})
    (reading,) = read_engines(exposition(page))
    assert reading.hits / reading.queries > 0.3

    grown = growth(page)

    assert kinds(page) == [Suspect.LOOKUPS_INFLATED]
    assert not grown.tokens.prompt, "the split of this release follows from its hits: it is absent, not wrong"
    assert grown.hits is None


def test_lookups_that_are_counted_at_each_retry_give_way_to_the_prompts_parts():
    """UD-05: from 0.16 on the prompts' own split is exact, and stands in for the lookups."""
    waiting = [replace(request, lookups=3) for request in [*RANDOM, Request(1024, l0=512)]]
    page = Page(RELEASES["0.26"], {"0": waiting})

    grown = growth(page)

    (finding,) = parsed(page).findings
    assert finding.kind == Suspect.LOOKUPS_INFLATED
    assert grown.tokens == TokenSplit(41 * 1024, l0=512, computed=41 * 1024 - 512)
    assert (grown.queries, grown.hits) == (41 * 1024, 512)


def test_prompts_under_way_are_no_contradiction():
    """Requests that were looked up and have no first token yet are as many as run, and as long as any was."""
    page = Page(RELEASES["0.26"], {"0": [*RANDOM[:20], *[replace(r, lookups=2) for r in RANDOM[:20]]]})
    assert kinds(page) == [Suspect.LOOKUPS_INFLATED]

    assert kinds(replace(page, running=20)) == []


def test_a_hit_counter_that_stays_at_zero_is_suspect_when_first_tokens_come_at_two_speeds():
    """UD-06: no hits told, but first tokens after 5.5 s or 0.8 s: not a hit ratio of 0."""
    slow, fast = [Request(1024, ttft=5.5)] * 30, [Request(1024, ttft=0.8)] * 30
    page = Page(RELEASES["0.26"], {"0": [*slow, *fast]})

    grown = growth(page)

    (finding,) = parsed(page).findings
    assert finding.kind == Suspect.HITS_STUCK
    assert not grown.tokens.prompt
    assert grown.hits is None


@pytest.mark.parametrize(
    ("why", "requests"),
    [
        ("one speed", [Request(1024, ttft=5.5)] * 60),
        ("lengths explain it", [Request(2000, ttft=5.5)] * 30 + [Request(100, ttft=0.8)] * 30),
        ("waiting explains it", [Request(1024, ttft=5.5, queue=4.7)] * 30 + [Request(1024, ttft=0.8)] * 30),
        ("too few", [Request(1024, ttft=5.5)] * 10 + [Request(1024, ttft=0.8)] * 10),
        ("something was hit", [Request(1024, ttft=5.5)] * 30 + [Request(1024, l0=512, ttft=0.8)] * 30),
        ("the connector had it", [Request(1024, ttft=5.5)] * 30 + [Request(1024, host=512, ttft=0.8)] * 30),
    ],
)
def test_a_hit_ratio_of_zero_is_believed_when_something_else_explains_the_times(why, requests):
    """UD-06: the same engine without hits is no finding."""
    assert kinds(Page(RELEASES["0.26"], {"0": requests})) == []


def test_a_hit_counter_that_stays_at_zero_is_suspect_when_less_was_computed_than_asked():
    """UD-06: what finished requests computed contradicts the counter without any reading of times."""
    text = Page(RELEASES["0.26"], {"0": RANDOM}).text()
    honest = "vllm:request_prefill_kv_computed_tokens_sum"
    lines = [
        f"{line.rpartition(' ')[0]} 8192" if line.startswith(honest) else line for line in text.splitlines()
    ]

    page = parse_engine_page(parse_exposition("\n".join(lines), where="page"), where="page")

    assert [finding.kind for finding in page.findings] == [Suspect.HITS_STUCK]
