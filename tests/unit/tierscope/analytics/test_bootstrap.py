"""Slices, and intervals that hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.analytics.bootstrap import interval_of, resampled_ratios, slice_sums


@given(n=st.integers(5, 60), slices=st.integers(1, 5))
def test_slices_hold_every_request_once(n, slices):
    """Sums over slices are the sums over all, and slices differ by at most one request in length."""
    hits = np.arange(2 * n).reshape(n, 2)
    cut = slice_sums(hits, np.ones(n, dtype=np.int64), slices)

    assert cut.hits.sum(axis=0).tolist() == hits.sum(axis=0).tolist()
    assert cut.total.max() - cut.total.min() <= 1


def test_fewer_requests_than_slices_are_refused():
    """An empty slice has no ratio."""
    with pytest.raises(ValueError, match="cannot be cut"):
        slice_sums(np.zeros((3, 1)), np.ones(3), 4)


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    """Independent slices with a true ratio of 0.4: about 95 of 100 intervals hold it, never fewer than 85."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        cut = slice_sums(rng.binomial(100, 0.4, size=(200, 1)), np.full(200, 100), 20)
        low, high = interval_of(resampled_ratios(cut, 400, rng))
        covered += bool(low[0] <= 0.4 <= high[0])

    assert covered >= 85


def test_one_seed_gives_one_interval():
    """Randomness is an argument: the same generator state gives the same resamples."""
    cut = slice_sums(np.arange(40).reshape(40, 1), np.full(40, 50), 20)

    first, second = (resampled_ratios(cut, 50, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)


def test_widening_stays_inside_zero_and_one():
    """A ratio cannot leave its scale, whatever is added for what resampling cannot see."""
    low, high = interval_of(np.full((10, 2), 0.9), np.array([0.2, 0.0]))

    assert low.tolist() == pytest.approx([0.7, 0.9])
    assert high.tolist() == pytest.approx([1.0, 0.9])
