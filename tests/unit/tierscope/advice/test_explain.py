"""What happened to a span's tokens, on workloads made up so that it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.explain import explain, misses_of
from tierscope.advice.sizing.latency import ttft_model
from tierscope.analytics.misses import Cause
from tierscope.domain.events import TierSample
from tierscope.domain.names import Beginning
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.tiers import Origin, Tier
from tierscope.domain.window import TimeSpan
from tierscope.domain.wiring import Wiring

WHO = ("ns", "chat")


def explained(window, deployment, start=w.START):
    evidence = w.served(window, deployment) if deployment else w.evidence(window)
    return explain(evidence, deployment, WHO, TimeSpan(start, w.START + 3600.0))


def test_causes_add_up_and_earlier_requests_only_warm():
    """Forty documents in turn through an L1 of twenty: after the first round all of it is capacity."""
    window = w.window(w.cycle(40, 400))
    late = explained(window, w.deployment(20 * 4 * w.CHUNK_BYTES), start=w.START + 1800.0)
    whole = explained(window, w.deployment(20 * 4 * w.CHUNK_BYTES))

    assert late.requests == 200
    assert sum(late.misses.causes.values()) == late.tokens[Origin.COMPUTED]
    assert late.misses.causes[Cause.COMPULSORY] == 0
    assert whole.misses.causes[Cause.COMPULSORY] == 40 * 256
    assert late.misses.causes[Cause.CAPACITY_L1] > 0.9 * late.tokens[Origin.COMPUTED]
    assert sum(room.tokens for room in late.misses.room) == late.misses.causes[Cause.CAPACITY_L1]
    assert {room.tier for room in late.misses.room} == {Tier.L1}


def misses_where_l1_was_seen(size_bytes, shares):
    """Causes where an L1 was seen to be filled to these shares, one after the other, and served nothing."""
    deployment = w.deployment(size_bytes)
    window = w.window(w.drawn(100, 600, np.random.default_rng(4)))
    samples = [
        TierSample(Tier.L1, "server", at, capacity_bytes=size_bytes, used_bytes=share * size_bytes)
        for at, share in zip(np.linspace(w.START, w.NOW, len(shares)), shares, strict=True)
    ]
    return misses_of(w.evidence(window, samples=samples), deployment, 0, "not fitted").causes


@pytest.mark.parametrize("share", [0.99, 0.9, 0.7])
def test_an_l1_that_is_not_quite_full_is_a_smaller_one(share):
    """A fill below its size says nothing of rounds of freeing: what it should have held is a failure."""
    size = 160.4 * w.CHUNK_BYTES

    assert misses_where_l1_was_seen(size, [share] * 50) == misses_where_l1_was_seen(share * size, [])


def test_an_l1_that_frees_in_rounds_is_sure_of_less_than_it_holds_on_average():
    """What a round had just dropped was no failure."""
    size = 40 * 4 * w.CHUNK_BYTES
    rounds, steady = (misses_where_l1_was_seen(size, shares) for shares in ([0.8, 0.6] * 25, [0.7] * 50))

    assert rounds[Cause.CAPACITY_L1] > steady[Cause.CAPACITY_L1]
    assert rounds[Cause.FAILURE] < steady[Cause.FAILURE]
    assert sum(rounds.values()) == sum(steady.values())


def test_each_cause_has_its_seconds_where_ttft_tells_what_a_token_costs():
    """A tenth of a millisecond a token, planted; without a TTFT there are none."""
    window = w.window(w.cycle(40, 400))
    deployment = w.deployment(20 * 4 * w.CHUNK_BYTES)
    evidence = w.served(window, deployment)
    varied = evidence.window.computed * (1 + np.arange(400) % 7)
    ttft = 0.01 + 1e-4 * varied
    priced = replace(
        evidence, window=replace(evidence.window, computed=varied, prompt=varied, ttft_seconds=ttft)
    )
    misses = misses_of(priced, deployment, 0, ttft_model(priced.window, 0))

    assert misses.seconds == {cause: pytest.approx(1e-4 * n, rel=0.01) for cause, n in misses.causes.items()}
    assert (misses.money, misses.currency) == (None, None)
    assert explained(window, deployment).misses.seconds is None


def test_each_cause_has_its_money_where_the_instance_has_a_price():
    """Two replicas share an instance of 7.20 an hour: a second of one costs a tenth of a cent."""
    window = w.window(w.cycle(40, 400))
    seconds = 0.01 + 1e-4 * window.computed * (1 + np.arange(400) % 7)
    window = replace(window, ttft_seconds=seconds, queue_seconds=np.zeros(400))
    deployment = w.deployment(20 * 4 * w.CHUNK_BYTES)
    instance = InstanceFigures(name="ml.g6e.12xlarge", price_per_hour=7.2, replicas=2)
    priced = replace(
        deployment,
        objective=replace(deployment.objective, prices=Prices(currency="EUR", instances=(instance,))),
        wiring=Wiring(instance_types=(instance.name,)),
    )
    evidence = w.served(window, priced)
    fit = ttft_model(evidence.window, 0)
    misses = misses_of(evidence, priced, 0, fit)

    assert misses.currency == "EUR"
    assert misses.money == {cause: pytest.approx(took * 0.001) for cause, took in misses.seconds.items()}
    assert misses.money[Cause.CAPACITY_L1] > 0


def test_servers_that_name_chunks_differently_isolate_what_the_pool_has():
    """Each document twice, on two replicas over one pool: no failure where the servers' names are known."""
    window = w.window([chain for chain in w.cycle(40, 40) for _ in range(2)], replicas=2)
    deployment = w.deployment(l2_bytes=1000 * w.CHUNK_BYTES, replicas=2)
    per_chunk = w.CHUNK_TOKENS // w.BLOCK_TOKENS
    named = tuple(
        Beginning(
            window.engines[engine],
            f"server-{engine}",
            "m",
            w.BLOCK_TOKENS,
            w.CHUNK_TOKENS,
            block,
            block + engine,
            True,
        )
        for engine, block in enumerate([int(window.block_hashes[per_chunk - 1])] * 2)
    )
    evidence = w.evidence(window)
    alike, apart = (
        misses_of(replace(evidence, beginnings=told), deployment, 0, "not fitted").causes
        for told in ((), named)
    )

    assert alike[Cause.FAILURE] == apart[Cause.ISOLATION] > 0
    assert alike[Cause.ISOLATION] == apart[Cause.FAILURE] == 0


def test_tokens_and_prefixes_are_the_spans_alone():
    """What came before the span is in no sum."""
    late = explained(
        w.window(w.cycle(10, 100)), w.deployment(100 * 4 * w.CHUNK_BYTES), start=w.START + 1800.0
    )

    assert late.prompt_tokens == 50 * 257 == sum(late.tokens.values())
    assert {one.requests for one in late.prefixes} == {5}
    assert len(late.prefixes) == 10


@pytest.mark.parametrize(
    ("window", "deployment", "words"),
    [
        (w.window([]), w.deployment(1e9), "no request"),
        (w.window(w.cycle(2, 4)), None, "no configuration"),
        (w.window(w.cycle(2, 4), chunk_tokens=None), w.deployment(1e9), "chunk size"),
        (w.window(w.cycle(2, 4)), w.deployment(1e9, bytes_per_token=None), "L0"),
        (w.window(w.cycle(2, 4), chunk_tokens=24), w.deployment(1e9), "whole number"),
    ],
)
def test_what_is_not_known_is_absent_with_its_reason(window, deployment, words):
    """Never zero: null, and why."""
    found = explain(w.evidence(window), deployment, WHO, window.span)

    assert found.misses.causes is None
    assert words in found.misses.absent_because


def test_without_lower_tiers_there_are_causes_all_the_same():
    """An engine with its own cache alone."""
    found = explained(w.window(w.cycle(4, 40), chunk_tokens=None), w.deployment(None))

    assert sum(found.misses.causes.values()) == found.tokens[Origin.COMPUTED]
    assert found.misses.causes[Cause.CAPACITY_L0] > 0


def priced(window, noise):
    seconds = 0.02 + window.computed * 1e-4 + window.l1 * 1e-5
    return replace(window, ttft_seconds=seconds * noise, queue_seconds=np.zeros(window.requests))


def test_ttft_is_told_by_the_outermost_tier_with_what_the_model_expects():
    """Medians are those of the requests, the expectation is the line they were drawn from."""
    rng = np.random.default_rng(3)
    served = w.served(w.window(w.drawn(40, 1200, rng)), w.deployment(20 * 4 * w.CHUNK_BYTES))
    window = priced(served.window, rng.lognormal(0, 0.05, 1200))
    found = explain(replace(served, window=window), None, WHO, window.span).ttft

    assert found.absent_because is None
    assert [one.served_from for one in found.tiers] == [Origin.COMPUTED, Origin.L1]
    assert sum(one.requests for one in found.tiers) == 1200
    for one in found.tiers:
        assert one.expected_p50 == pytest.approx(one.p50, rel=0.05)
    assert found.seconds_per_token["computed"] == pytest.approx(1e-4, rel=0.1)


def test_without_times_there_is_no_expectation():
    """The reason is the model's."""
    found = explained(w.window(w.cycle(2, 4)), w.deployment(1e9)).ttft

    assert (found.tiers, found.unknown, found.error_ratio) == ((), 4, None)
    assert "0 records have a TTFT" in found.absent_because
