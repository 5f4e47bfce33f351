"""Medians, ratios and the length from which on loading wins."""

from __future__ import annotations

import numpy as np
import pytest

from tierscope.analytics.comparison import break_even, median_of, ratio_of

LENGTHS = (500, 1000, 2000, 3000)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def timings(fixed, per_token, rng, noise=0.0):
    return {n: list((fixed + per_token * n) * (1 + noise * rng.standard_normal(10))) for n in LENGTHS}


def test_a_median_has_an_interval_around_it(rng):
    """Nine of ten timings are close together; the one that was disturbed moves neither end far."""
    estimate = median_of([0.1, 0.11, 0.12, 0.1, 0.11, 0.12, 0.1, 0.11, 0.12, 9.0], rng)

    assert estimate.value == pytest.approx(0.11)
    assert 0.1 <= estimate.low <= estimate.value <= estimate.high <= 0.12


def test_timings_without_noise_have_no_interval(rng):
    """Twice as fast is 2.0, from 2.0 to 2.0."""
    assert ratio_of([0.4] * 5, [0.2] * 5, rng) == (2.0, 2.0, 2.0)


def test_the_published_lines_meet_where_their_fit_says(rng):
    """0.24 ms a token against 0.03 ms and 205 ms: they meet at 976 tokens."""
    crossing = break_even(timings(0.0, 0.00024, rng), timings(0.205, 0.00003, rng), rng)

    assert crossing == pytest.approx((976.19, 976.19, 976.19), abs=0.01)


def test_noise_widens_the_interval_and_the_truth_is_in_it():
    """In nearly all of a hundred repetitions with 5 % noise."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        crossing = break_even(timings(0.05, 0.0003, rng, 0.05), timings(0.2, 0.00005, rng, 0.05), rng)
        covered += crossing.low <= 600 <= crossing.high
        assert crossing.low < crossing.high

    assert covered >= 85


def test_loading_that_is_slower_at_every_token_never_wins(rng):
    """There is no length from which on it does; nor can one be told from a single length."""
    assert break_even(timings(0.1, 0.0001, rng), timings(0.05, 0.0002, rng), rng) is None
    assert break_even({500: [0.1]}, {500: [0.2]}, rng) is None
    assert break_even({}, {}, rng) is None


def test_loading_that_is_always_faster_wins_from_the_first_token(rng):
    """No negative length is told."""
    assert break_even(timings(0.2, 0.0003, rng), timings(0.1, 0.0001, rng), rng).value == 0
