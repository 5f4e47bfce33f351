"""A pool that grows steadily is foretold to be full, with an interval that holds; any other is not."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.sizing.forecast import forecasts
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.wiring import PoolWiring

DAY = 24 * 3600.0
TIB = 2.0**40


def readings(used: np.ndarray, seconds: float = DAY, capacity: float = TIB) -> list[TierSample]:
    """Readings evenly over a span of a pool that held so much."""
    times = np.linspace(w.START, w.START + seconds, len(used))
    return [
        TierSample(Tier.L2, "pool", float(at), capacity_bytes=capacity, used_bytes=float(value))
        for at, value in zip(times, used, strict=True)
    ]


def steady(share_a_day: float, n: int = 240) -> np.ndarray:
    """From a tenth on, so much of the pool a day."""
    return TIB * (0.1 + share_a_day * np.linspace(0, 1, n))


def test_steady_growth_ends_when_the_rest_is_filled():
    """A tenth a day from a fifth full: what is left to 98 % takes 7.8 days."""
    [found] = forecasts(readings(steady(0.1)), None)

    expected = timedelta(seconds=w.START + DAY + 7.8 * DAY)
    assert found.full_at.timestamp() == pytest.approx(expected.total_seconds(), abs=60)
    assert found.growth_bytes_per_hour.value == pytest.approx(0.1 * TIB / 24, rel=1e-6)
    assert found.earliest <= found.full_at <= found.latest


def test_the_interval_holds_on_uneven_growth():
    """Stores come in bursts: of 100 pools, 90 and more are full within the interval."""
    within = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        steps = rng.gamma(0.3, 1.0, 4000) * TIB * 0.2 / 240 / 0.3
        used = 0.1 * TIB + np.cumsum(steps)
        full = int(np.argmax(used >= 0.98 * TIB))
        [found] = forecasts(readings(used[:240]), None)
        really = w.START + DAY * full / 239
        within += found.earliest.timestamp() <= really <= found.latest.timestamp()

    assert within >= 90


@pytest.mark.parametrize(
    "used",
    [
        steady(0.0),
        steady(0.1)[::-1],
        steady(0.05),
        steady(0.1, 30),
        steady(0.885),
        TIB * (0.1 + 0.2 * np.linspace(0, 1, 240) ** 3),
        TIB * (0.3 + 0.1 * (np.arange(240) % 40) / 40),
    ],
    ids=["still", "shrinking", "beyond what can be told", "too few", "full", "ever faster", "makes room"],
)
def test_growth_that_cannot_go_on_as_it_was_is_not_foretold(used):
    """Absent, not a date far away."""
    assert not list(forecasts(readings(used), None))


def test_hours_do_not_tell_of_days():
    """In six hours nobody sees a night: as far as was seen, and no farther."""
    assert not list(forecasts(readings(steady(0.2), 6 * 3600.0), None))
    assert list(forecasts(readings(steady(0.5), 6 * 3600.0), None))


def test_a_pool_that_was_emptied_once_grows_from_there():
    """The fall is in the first third, and the rest is steady."""
    used = np.concatenate((np.full(60, 0.9 * TIB), steady(0.1, 180)))
    [found] = forecasts(readings(used, 2 * DAY), None)

    assert found.growth_bytes_per_hour.value == pytest.approx(0.1 * TIB / 36, rel=0.02)


def test_another_size_begins_anew():
    """A pool that was made larger just now has no growth of its own yet."""
    before, after = readings(steady(0.1))[:200], readings(steady(0.1), capacity=2 * TIB)[200:]

    assert not list(forecasts([*before, *after], None))


@pytest.mark.parametrize(("days", "told"), [(2.0, False), (30.0, True)])
def test_files_that_go_by_age_keep_a_pool_from_filling(days, told):
    """If the first file goes before the pool is full, growth does not go on."""
    pool = PoolWiring("ns", "pool", 1, ttl_action="delete", ttl_seconds=days * DAY)

    assert bool(list(forecasts(readings(steady(0.1)), pool))) is told
