"""Instance types are compared at one TTFT by what their figures say, and not at all without figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.document import InstanceChoice
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import Deployment, Objective, ObjectiveKind, TtftQuantile
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence
from tierscope.domain.wiring import Wiring

CHUNK = w.CHUNK_BYTES
SMALL = InstanceFigures(
    "ml.g6e.example",
    price_per_hour=4.0,
    l0_bytes=4 * w.BLOCK_TOKENS * w.BYTES_PER_TOKEN,
    host_limit_bytes=400 * CHUNK,
    prefill_tokens_per_second=1000.0,
    l1_tokens_per_second=20_000.0,
)
LARGE = replace(SMALL, name="ml.p5.example", price_per_hour=10.0, prefill_tokens_per_second=4000.0)
SECONDS = (0.05, 1 / 1000, 1 / 20_000)
"""Fixed, a token computed, and a token from L1, on the small type."""


def deployed(*figures: InstanceFigures, target: float = 0.2, **wired: object) -> Deployment:
    prices = Prices(host_gib_per_hour=0.01 * 2**30 / CHUNK, instances=figures)
    objective = Objective(ObjectiveKind.LOWEST_COST, target, TtftQuantile.P50, prices)
    return w.deployment(80 * CHUNK, objective=objective, wiring=Wiring(instance_types=(SMALL.name,), **wired))


def recorded(by: Deployment, seconds: tuple[float, float, float] = SECONDS) -> Evidence:
    """Questions of many lengths, served by the model with little noise."""
    rng = np.random.default_rng(1)
    chains = [w.chain_hashes(i, 4 + 4 * (i % 8)) for i in rng.integers(0, 60, 3000)]
    window = w.served(w.window(chains), by).window
    fixed, computed, l1 = seconds
    times = (fixed + computed * window.computed + l1 * window.l1) * rng.lognormal(0, 0.02, 3000)
    hits = (window.l0, window.l1, window.l2)
    return w.evidence(w.window(chains, hits=hits, ttft_seconds=times))


def compared(deployment: Deployment) -> dict[str, InstanceChoice]:
    found = recommend(recorded(deployment), deployment, now_unix_seconds=w.NOW).instances
    return {one.instance_type: one for one in found}


def test_a_faster_type_needs_less_cache_for_the_same_ttft():
    """Both reach it: one by its cache, the other by its prefill; the cost decides, and is of both."""
    found = compared(deployed(SMALL, LARGE))

    small, large = found[SMALL.name], found[LARGE.name]
    assert (small.is_current, large.is_current) == (True, False)
    assert small.meets_target
    assert large.meets_target
    assert large.capacity_bytes[Tier.L1] < small.capacity_bytes[Tier.L1]
    for one, price in ((small, 4.0), (large, 10.0)):
        chunks = one.capacity_bytes[Tier.L1] / CHUNK
        assert one.cost_per_hour.value == pytest.approx(price + 0.01 * chunks)
        assert one.ttft_p50_seconds.low <= one.ttft_p50_seconds.value <= one.ttft_p50_seconds.high


def test_what_is_said_of_another_type_is_what_it_does():
    """The same traffic recorded on the large type, four times as fast at computing, has that median TTFT."""
    deployment = deployed(SMALL, LARGE)
    said = compared(deployment)[LARGE.name]
    there = replace(deployment, tiers=w.deployment(said.capacity_bytes[Tier.L1]).tiers)
    window = recorded(there, (SECONDS[0], SECONDS[1] / 4, SECONDS[2])).window

    median = float(np.median(window.ttft_seconds[900:]))
    assert said.ttft_p50_seconds.low * 0.97 <= median <= said.ttft_p50_seconds.high * 1.03


def test_a_type_that_cannot_reach_it_says_so():
    """Thirty milliseconds are less than the fixed part."""
    found = compared(deployed(SMALL, LARGE, target=0.03))

    assert not any(one.meets_target for one in found.values())


def test_missing_figures_are_named_and_give_no_number():
    """Of another type its speed, of the endpoint's own all of them."""
    slow = replace(LARGE, prefill_tokens_per_second=None, host_limit_bytes=None)
    found = compared(deployed(SMALL, slow))[slow.name]

    assert found.missing == ("host_limit_bytes", f"prefill_tokens_per_second of {slow.name}")
    assert (found.cost_per_hour, found.ttft_p50_seconds, found.meets_target) == (None, None, None)
    alone = compared(deployed(LARGE))
    assert alone[SMALL.name].missing == ("figures under objective.prices.instances",)
    assert "figures of the endpoint's own instance type" in alone[LARGE.name].missing


def test_without_figures_nothing_is_compared():
    """A price of memory is no instance type."""
    assert compared(deployed()) == {}
