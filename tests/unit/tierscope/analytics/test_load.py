"""How many sessions take turns, and hit ratios at another load."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drifting import interleaved
from tierscope.analytics.holdout import hold_out
from tierscope.analytics.load import at_other_load, sessions_taking_turns


def falling(at: float) -> int:
    """Twenty sessions until just after the cut, then fewer and fewer."""
    return 20 if at < 0.55 else round(20 - 16 * (at - 0.55) / 0.45)


def rising(at: float) -> int:
    """Eight sessions until just after the cut, then three times as many."""
    return 8 if at < 0.55 else 24


def test_sessions_that_come_in_turn_are_counted():
    """Three sessions one after the other, then two: a third more blocks lie between than with two."""
    session = np.array([4, 7, 9] * 20 + [7, 9] * 30, np.int32)

    assert sessions_taking_turns(session, 3, 60, 1).tolist() == [3.0]
    assert sessions_taking_turns(session, 62, 120, 2).tolist() == [2.0, 2.0]


def test_requests_of_unknown_sessions_are_no_sessions():
    """They are passed over; without any session that came back there is nothing to say."""
    session = np.array([1, -1, 2, -1, -1, 1, 2, 1, 2], np.int32)

    assert sessions_taking_turns(session, 3, 9, 1).tolist() == [2.0]
    assert sessions_taking_turns(np.array([1, 2, -1, -1], np.int32), 0, 4, 2) is None
    assert sessions_taking_turns(np.full(5, -1, np.int32), 0, 5, 2) is None


def test_a_slice_in_which_no_one_comes_back_counts_as_the_whole():
    """Sessions of one request have no distance."""
    session = np.array([1, 2, 1, 2, 3, 4, 5, 6], np.int32)

    assert sessions_taking_turns(session, 0, 8, 2).tolist() == [2.0, 2.0]


def test_twice_the_sessions_need_twice_the_size():
    """And half of the traffic at either load gives the mean of both."""
    sizes, ratios = np.array([10, 20, 40, 80]), np.array([0.1, 0.2, 0.4, 0.8])

    twice = at_other_load(sizes, ratios, np.array([2.0]), np.ones(1))
    mixed = at_other_load(sizes, ratios, np.array([2.0, 1.0]), np.ones(2))

    assert twice == pytest.approx([0.1, 0.1, 0.2, 0.4])
    assert mixed == pytest.approx((twice + ratios) / 2)


@pytest.mark.parametrize("active", [falling, rising])
def test_what_comes_is_told_from_the_load_that_comes(active):
    """Four worlds whose load changes after the cut: knowing it, half of the error goes at least."""
    plain, told = [], []
    for seed in range(4):
        chains, session = interleaved(np.random.default_rng(seed), active, requests=6000)
        sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 16).astype(np.int64))
        found = hold_out(chains, sizes, np.random.default_rng(seed), session)
        plain.append(found.errors.mean())
        told.append(found.load.forecast.errors.mean())

    assert np.mean(told) < np.mean(plain) / 2
