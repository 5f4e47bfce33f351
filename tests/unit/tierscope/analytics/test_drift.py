"""Drift is told from chance."""

from __future__ import annotations

import numpy as np
import pytest

from tierscope.analytics.bootstrap import Slices
from tierscope.analytics.drift import NO_SHIFT, shift_of


def slices_around(ratios: np.ndarray, rng: np.random.Generator, noise: float = 0.03) -> Slices:
    """Twenty slices of 1,000 tokens at three sizes whose ratios lie about the given ones."""
    found = ratios[:, None] * np.array([0.5, 0.8, 1.0]) + rng.normal(0, noise, (20, 3))
    return Slices(found * 1000, np.full(20, 1000.0))


def shift(slices: Slices, rng: np.random.Generator):
    return shift_of(slices, 5, 499, rng)


def test_slices_of_one_workload_are_seldom_called_drifting():
    """At a threshold of 0.01, at most a few of 100 stationary histories are flagged."""
    flagged = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        flagged += shift(slices_around(np.full(20, 0.5), rng), rng).p_value <= 0.01

    assert flagged <= 5


@pytest.mark.parametrize(
    "ratios",
    [np.where(np.arange(20) < 15, 0.5, 0.7), np.linspace(0.4, 0.7, 20)],
    ids=["jump", "slow"],
)
def test_a_jump_and_a_slow_change_are_both_told(ratios):
    """Both are found in at least 95 of 100 histories, with the sign and about the size of the change."""
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        found.append(shift(slices_around(ratios, rng), rng))

    assert sum(one.p_value <= 0.01 for one in found) >= 95
    assert np.median([one.ratio for one in found]) == pytest.approx(0.17, abs=0.06)


def test_a_constant_ratio_does_not_drift():
    """A cycle that always hits, or never does, has no spread to judge by and no shift either."""
    constant = Slices(np.full((20, 2), 500.0), np.full(20, 1000.0))

    assert shift(constant, np.random.default_rng(0)) == NO_SHIFT
