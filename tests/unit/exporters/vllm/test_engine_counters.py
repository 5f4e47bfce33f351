"""Tokens by origin between two readings, against what real engines counted, and under every timing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.exposition import parse_exposition
from exporters.vllm.counters import EngineCounters
from exporters.vllm.parse import PromptCounters, parse_engine_page
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.tiers import Origin

RUNS = {
    "vllm/run-a-prefix-cache": [TokenSplit(11_244, l0=3_488, computed=7_756)],
    "vllm/run-b-offload-tiers": [TokenSplit(15_193, l0=3_072, l1=256, l2=3_776, computed=8_089)],
    "vllm/run-c-data-parallel": [
        TokenSplit(1_145, l0=480, computed=665),
        TokenSplit(1_134, l0=480, computed=654),
    ],
    "observer/a_alone": [TokenSplit(15_976, l0=3_488, computed=12_488)],
    "observer/b_offloading": [TokenSplit(16_588, l0=3_488, l1=256, l2=1_312, computed=11_532)],
    "observer/c_lmcache_mp": [TokenSplit(15_976, l0=3_488, external=1_472, computed=11_016)],
}


@pytest.mark.parametrize("run", RUNS)
def test_the_growth_between_two_captured_pages_is_what_the_engine_counted(captures, run):
    """From the page before a workload to the page after it, every token has its origin."""
    before, after = (
        parse_engine_page(
            parse_exposition((captures / run / f"metrics_{when}.txt").read_text("utf-8"), where=when),
            where=when,
        )
        for when in ("before", "after")
    )
    growth = []
    for first, second in zip(before.counters, after.counters, strict=True):
        counters = EngineCounters()
        assert counters.advance(first) is None
        growth.append(counters.advance(second).tokens)

    assert growth == RUNS[run]


def reading(computed=0, l0=0, external=0, *, host=0, disk=0, unspecified=0, created=1.0):
    return PromptCounters(
        model="m",
        engine_label="0",
        at_first_token={Origin.COMPUTED: computed, Origin.L0: l0, Origin.EXTERNAL: external},
        vague=Origin.EXTERNAL,
        at_admission={Origin.L1: host, Origin.L2: disk, Origin.EXTERNAL: unspecified},
        queries=0,
        hits=0,
        created_unix_seconds=created,
    )


def growths(*readings):
    counters = EngineCounters()
    assert counters.advance(readings[0]) is None
    return [counters.advance(item).tokens for item in readings[1:]]


def test_tokens_found_at_admission_wait_for_their_first_token():
    """A load of which no prompt is through yet counts nowhere; at the first token it has its tier."""
    found, served = growths(reading(), reading(host=64), reading(computed=10, external=64, host=64))

    assert found == NO_TOKENS
    assert served == TokenSplit(74, l1=64, computed=10)


def test_tokens_of_requests_that_never_got_a_first_token_are_left_over():
    """An aborted load of L2 tokens does not take the place of later L1 tokens."""
    *_, last = growths(
        reading(),
        reading(disk=500),
        reading(external=100, host=100, disk=500),
    )

    assert last == TokenSplit(100, l1=100)


def test_connector_tokens_that_no_tier_accounts_for_are_external():
    """What is not told is a bucket of its own, never guessed away."""
    (growth,) = growths(reading(), reading(external=100, host=30))

    assert growth == TokenSplit(100, l1=30, external=70)


def test_an_older_engines_prompts_are_split_by_its_hits():
    """With hit counters alone the rest of the prompt was computed."""
    old = PromptCounters("m", "0", {Origin.COMPUTED: 0}, Origin.COMPUTED, {Origin.L0: 0, Origin.EXTERNAL: 0})
    new = replace(
        old, at_first_token={Origin.COMPUTED: 100}, at_admission={Origin.L0: 60, Origin.EXTERNAL: 30}
    )

    assert growths(old, new) == [TokenSplit(100, l0=60, external=30, computed=10)]


def test_a_restarted_engine_counts_from_zero_and_owes_nothing():
    """After a restart the growth is the new value; loads of the old life claim nothing."""
    counters = EngineCounters()
    counters.advance(reading(computed=1000, disk=50))
    counters.advance(reading(computed=1100, disk=90))

    growth = counters.advance(reading(computed=5, external=20, created=2.0))

    assert growth.restarted
    assert growth.tokens == TokenSplit(25, computed=5, external=20)


def test_a_fall_without_a_new_beginning_is_a_restart_too():
    """Servers with several processes show a restart by nothing but smaller numbers."""
    (growth,) = growths(reading(computed=1000, created=None), reading(computed=30, created=None))

    assert growth == TokenSplit(30, computed=30)


tokens = st.integers(0, 1000)


@st.composite
def request_flows(draw):
    """Requests of an engine: their tokens by origin, when admitted, and when they reach a first token."""
    return [
        (
            TokenSplit(sum(parts), *parts),
            admitted := draw(st.integers(0, 9)),
            draw(st.integers(admitted, 10)),
        )
        for parts in draw(st.lists(st.tuples(tokens, tokens, tokens, tokens, tokens), max_size=12))
    ]


@given(flow=request_flows())
def test_at_rest_every_token_has_its_own_tier_whatever_the_timing(flow):
    """However admissions and first tokens fall between readings, the sums end exact and never go negative."""
    counters = EngineCounters()
    counters.advance(reading())
    total = NO_TOKENS
    for step in range(11):
        admitted = [split for split, start, _ in flow if start <= step]
        served = [split for split, _, first in flow if first <= step]
        growth = counters.advance(
            reading(
                computed=sum(s.computed for s in served),
                l0=sum(s.l0 for s in served),
                external=sum(s.l1 + s.l2 + s.external for s in served),
                host=sum(s.l1 for s in admitted),
                disk=sum(s.l2 for s in admitted),
                unspecified=sum(s.external for s in admitted),
            )
        )
        total += growth.tokens

    assert total == sum((split for split, *_ in flow), NO_TOKENS)
