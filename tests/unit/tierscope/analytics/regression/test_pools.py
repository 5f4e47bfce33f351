"""Pools are held against themselves: each by its own readings, whoever else tells of L2."""

from __future__ import annotations

from tierscope.analytics.regression.attribution import PoolReadings
from tierscope.analytics.regression.endpoint import POOL_MEMORY_SECONDS, POOL_SILENT_SECONDS, PoolHistory
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier


def told(holder: str, at: float, capacity: float | None, used: float | None = 1.0, tier: Tier = Tier.L2):
    return TierSample(tier, holder, at, capacity, used)


def test_a_small_pool_beside_a_large_one_has_not_shrunk():
    """Readings come by holder, and only then by time."""
    history = PoolHistory()
    history.add([told("kv-a", at, 10.0, 4.0) for at in (0.0, 15.0)])
    history.add([told("kv-b", at, 4.0, 2.0) for at in (0.0, 15.0)])

    assert history.until(20.0) == (PoolReadings(10.0, 10.0, 4.0), PoolReadings(4.0, 4.0, 2.0))


def test_a_pool_is_told_as_it_was_at_the_moment_and_as_large_as_it_had_been():
    """What comes later is not known yet."""
    history = PoolHistory()
    history.add([told("kv", 0.0, 10.0, 5.0), told("kv", 15.0, 5.0, 4.0), told("kv", 30.0, 20.0, None)])

    assert history.until(-1.0) == ()
    assert history.until(20.0) == (PoolReadings(10.0, 5.0, 4.0),)
    assert history.until(30.0) == (PoolReadings(20.0, 20.0, None),)


def test_who_tells_of_l2_without_a_size_does_not_speak_for_the_pool():
    """An engine's own view knows what it put there, not how large it is; other tiers are none."""
    history = PoolHistory()
    history.add([told("kv", 0.0, 10.0, 9.9), told("zz-engine", 5.0, None, 0.1)])
    history.add([told("kv", 6.0, 3.0, 0.2, Tier.L1)])

    assert history.until(20.0) == (PoolReadings(10.0, 10.0, 9.9),)


def test_old_readings_of_every_pool_are_forgotten():
    """Whatever is told in between by others; and a pool that tells nothing more is none."""
    history, later = PoolHistory(), POOL_MEMORY_SECONDS + 10.0
    history.add([told("kv-a", 8.0, 10.0), told("kv-a", later, 9.0)])
    history.add([told("kv-b", 5.0, 8.0), told("kv-b", 12.0, 7.0), told("kv-b", later, 6.0)])
    history.add([told("kv-c", 0.0, 6.0)])

    assert [one.capacity_before for one in history.until(later)] == [9.0, 7.0]


def test_a_pool_that_fell_silent_is_not_judged_by_what_it_told_last():
    """It was renamed, or is gone: what is wrong now is not its size of an hour ago."""
    history = PoolHistory()
    history.add([told("old", 0.0, 10.0), told("old", 15.0, 2.0)])
    history.add([told("new", at, 10.0) for at in (0.0, 2 * POOL_SILENT_SECONDS)])

    assert history.until(20.0) == (PoolReadings(10.0, 2.0, 1.0), PoolReadings(10.0, 10.0, 1.0))
    assert history.until(2 * POOL_SILENT_SECONDS) == (PoolReadings(10.0, 10.0, 1.0),)
