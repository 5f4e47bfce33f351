"""Of tiers that serve less, the one whose lost tokens cost most is blamed, with what is left of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.requests_seen import draw
from tierscope.analytics.regression.attribution import Cause, PoolReadings, Reason, attribute, fit_parts
from tierscope.analytics.regression.baseline import calibrate
from tierscope.analytics.regression.observations import cost_columns
from tierscope.analytics.ttft import TtftFit
from tierscope.domain.tiers import Tier

CHANGE = 2500.0
LONG = 10.0
"""Prompts this many times as long: some 13,000 tokens of one are cached."""
FULL = PoolReadings(100.0, 100.0, used_since=99.0)


def drawn(seed: int, n: int, **change):
    """Requests of which no token is foreign: the pool holds what this engine was asked for, too."""
    seen = draw(np.random.default_rng(seed), n, at=CHANGE * (seed - 1), prompts=LONG, **change)
    own = np.zeros_like(seen.own)
    own[:, :-1] = seen.fleet
    return seen._replace(own=own)


def without_l2(seen, kept: float = 0.0):
    """What the pool no longer serves is computed."""
    lost = (1 - kept) * seen.l2
    return seen._replace(l2=seen.l2 - lost, computed=seen.computed + lost)


def blamed(past, since, coefficients, *pools: PoolReadings):
    """The attribution where tokens cost what is said: fixed, computed, L0, L1, L2 and pairs."""
    baseline = replace(calibrate(past, 1.1), fit=TtftFit(np.array(coefficients), 0.0))
    return attribute(baseline, fit_parts(past), since, pools)


def test_a_pair_is_a_computed_token_and_one_before_it():
    """A token that is computed instead of loaded makes one with each that is still cached."""
    some = cost_columns(*(np.array([float(tokens)]) for tokens in (101, 600, 200, 99)))
    fewer = cost_columns(*(np.array([float(tokens)]) for tokens in (100, 600, 200, 100)))

    assert (some - fewer)[0, -1] == pytest.approx(900, abs=1)


def test_what_a_long_context_costs_to_compute_tells_whose_loss_it_is():
    """A token alone is computed in less time than the pool loads it, but it attends to thousands."""
    past, since = drawn(1, 2500), without_l2(drawn(2, 1000), kept=0.2)

    found = blamed(past, since, [0.03, 1e-5, 0.0, 3e-6, 3e-5, 1e-8])

    assert (found.cause, found.tier, found.reason) == (Cause.TIER_SHARE, Tier.L2, Reason.EVICTIONS)
    assert found.factor == pytest.approx(0.2, abs=0.05)


def test_where_no_lost_token_costs_anything_the_tier_that_lost_most_is_blamed():
    """L1 is slow, and what it no longer has comes from a pool that is slower still."""
    past, since = drawn(1, 2500), drawn(2, 1000, l1_kept=0.1)

    found = blamed(past, since, [0.03, 1e-5, 0.0, 2e-5, 6e-5, 0.0])

    assert (found.cause, found.tier, found.reason) == (Cause.TIER_SHARE, Tier.L1, Reason.EVICTIONS)
    assert found.factor == pytest.approx(0.1, abs=0.05)


def test_seeds_that_differ_are_told_with_what_is_left_of_the_pools_hits():
    """Though another tier's lost tokens cost more at the same time."""
    past = draw(np.random.default_rng(1), 2500, affinity=0.9)
    since = draw(
        np.random.default_rng(2), 1000, at=CHANGE, affinity=0.9, seeds_differ=True, computed_anew=0.5
    )

    found = blamed(past, since, [0.03, 1e-4, 0.0, 3e-6, 3e-5, 0.0])

    assert (found.cause, found.tier, found.reason) == (Cause.TIER_SHARE, Tier.L2, Reason.SEED)
    assert found.factor == 0.0


def test_one_pool_of_several_that_is_full_or_shrank_is_enough():
    """Whatever the others tell, and in whatever order."""
    past, since = drawn(1, 2500), without_l2(drawn(2, 1000))
    well, lost, silent = PoolReadings(40.0, 40.0, 10.0), PoolReadings(20.0, 10.0, 4.0), PoolReadings(9.0, 9.0)
    cost = [0.03, 1e-4, 0.0, 3e-6, 3e-5, 0.0]

    told = {
        pools: blamed(past, since, cost, *pools).reason
        for pools in ((), (well, silent), (well, FULL), (FULL, silent), (lost, FULL), (FULL, lost, well))
    }

    assert list(told.values()) == [
        Reason.EVICTIONS, Reason.EVICTIONS, Reason.POOL_FULL, Reason.POOL_FULL,
        Reason.WORKER_LOST, Reason.WORKER_LOST,
    ]  # fmt: skip
