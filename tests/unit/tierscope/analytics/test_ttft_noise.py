"""The TTFT fit under noise of several kinds, next to the least error that anyone could have."""

from __future__ import annotations

import numpy as np
import pytest

from tests.planted_costs import NOISES, in_both, in_either, least_errors, median_costs, seconds_of
from tierscope.analytics.ttft import fit_ttft

SEEDS = 40
REQUESTS = 1000
ASKED = 0.05
"""Of each slope, in the median of many worlds."""
WITHIN_REACH = 0.03
"""A least error that leaves room for what the fit has above it."""
ABOVE_THE_LEAST = 2.0
"""A line of medians has 1.25 times the least error under log-normal noise; the rest is luck."""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("loads", [in_both, in_either])
def test_slopes_are_found_about_as_well_as_anyone_could(loads, noise):
    """Within 5 % where that is within reach: always for computed and L2 tokens, for L1's seldom."""
    worlds = [np.random.default_rng(seed) for seed in range(SEEDS)]
    tokens = [loads(REQUESTS, rng) for rng in worlds]
    costs = [
        fit_ttft(rows, seconds_of(rows, NOISES[noise], rng)).coefficients
        for rows, rng in zip(tokens, worlds, strict=True)
    ]
    errors = np.median(np.abs(np.array(costs) / median_costs(NOISES[noise]) - 1), axis=0)[1:]
    least = np.mean([least_errors(rows, NOISES[noise]) for rows in tokens], axis=0)[1:]

    assert np.all(errors <= ABOVE_THE_LEAST * least)
    assert np.all(errors[least <= WITHIN_REACH] <= ASKED)
    assert least[0] <= WITHIN_REACH
    assert least[2] <= WITHIN_REACH


def test_no_unbiased_fit_of_a_thousand_requests_tells_an_l1_token_to_five_percent():
    """It is little beside a noise of 20 % of the whole; 3,000 requests would do, fitted as well as can be."""
    noise = NOISES["log-normal 20 %"]
    few, many = (least_errors(in_both(n, np.random.default_rng(0)), noise)[2] for n in (1000, 3000))

    assert few > 1.3 * ASKED
    assert many < ASKED
