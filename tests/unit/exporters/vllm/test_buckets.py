"""Histograms of whatever buckets, and whether they have two modes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm.buckets import Buckets, buckets_of

EDGES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)


def buckets(*counts):
    return Buckets(EDGES, counts, 1.0)


def test_cumulative_counts_become_counts_by_bucket():
    """In the order of their edges, with the rest beyond the last one."""
    assert buckets_of({1.0: 5, 0.5: 2}, 7, 3.5) == Buckets((0.5, 1.0, math.inf), (2, 3, 2), 3.5)


@pytest.mark.parametrize("cumulative", [{0.5: 3, 1.0: 2}, {0.5: -1}, {0.5: math.nan}, {0.5: math.inf}])
def test_counts_that_are_none_make_no_buckets(cumulative):
    """Counts fall only where a page is broken."""
    assert buckets_of(cumulative, 9, 1.0) is None


def test_the_longest_is_an_edge_that_nothing_is_above():
    """Unknown where the last bucket, which has no edge, holds any."""
    assert buckets(1, 0, 4, 0, 0, 0, 0, 0).longest == 0.5
    assert buckets(1, 0, 4, 0, 0, 0, 0, 1).longest is None
    assert buckets(0, 0, 0, 0, 0, 0, 0, 0).longest is None


def test_two_modes_are_found_with_their_middles():
    """Half around 0.75 s, half around 7 s, nothing between."""
    fast, slow = buckets(0, 0, 0, 40, 0, 0, 40, 0).modes()

    assert 0.5 < fast < 1.0
    assert 5.0 < slow < 10.0


@pytest.mark.parametrize(
    "counts",
    [
        (0, 0, 0, 80, 0, 0, 0, 0),
        (0, 0, 0, 78, 0, 0, 2, 0),
        (0, 0, 0, 40, 40, 0, 0, 0),
        (5, 10, 20, 30, 20, 10, 5, 0),
        (0, 0, 0, 10, 0, 0, 10, 0),
        (0, 0, 0, 0, 0, 0, 0, 0),
    ],
)
def test_one_mode_a_rare_one_near_ones_a_slope_and_few_are_not_two(counts):
    """Only what no one would call one speed is called two."""
    assert buckets(*counts).modes() is None


@given(counts=st.lists(st.integers(0, 1000), min_size=8, max_size=8))
def test_any_counts_have_modes_or_none(counts):
    """Whatever is counted, the answer is two rising numbers or nothing."""
    modes = buckets(*counts).modes()

    assert modes is None or 0 < modes[0] < modes[1] < math.inf
