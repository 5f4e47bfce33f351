"""The front keeps what nothing beats, and its knee is where the line through its ends is farthest away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.advice.sizing.engine import AS_IT_IS
from tierscope.advice.sizing.front import front_of, knee_of
from tierscope.advice.sizing.joint import Candidate


def candidate(cost: float | None, seconds: float | None) -> Candidate:
    return Candidate(AS_IT_IS, {}, 0.0, seconds, cost, 0.0, 0.0)


points = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=40)


@given(points=points)
def test_nothing_on_the_front_is_beaten_and_all_else_is(points):
    """Of two choices, one that is no dearer and no slower makes the other pointless."""
    front = [
        (one.cost, one.ttft_seconds) for one in front_of([candidate(float(c), float(t)) for c, t in points])
    ]

    assert front == sorted(front)
    assert [seconds for _, seconds in front] == sorted({seconds for _, seconds in front}, reverse=True)
    for cost, seconds in points:
        assert any(c <= cost and t <= seconds for c, t in front)


def test_a_gain_too_small_to_tell_is_left_out():
    """Half a percent faster for more money is no choice."""
    front = front_of([candidate(1.0, 1.0), candidate(2.0, 0.995), candidate(3.0, 0.9)])

    assert [one.cost for one in front] == [1.0, 3.0]


def test_what_has_no_cost_or_no_ttft_is_not_compared():
    """Absent is not zero."""
    assert front_of([candidate(None, 1.0), candidate(1.0, None)]) == []


@pytest.mark.parametrize(
    ("costs", "seconds", "knee"),
    [
        ([1.0, 2.0, 10.0], [10.0, 1.5, 1.0], 1),
        ([1.0, 5.0, 9.0, 10.0], [10.0, 9.0, 2.0, 1.0], 2),
        ([1.0, 2.0], [2.0, 1.0], None),
    ],
)
def test_the_knee_is_where_paying_more_stops_to_pay(costs, seconds, knee):
    """Whatever the units."""
    assert knee_of(np.array(costs), np.array(seconds)) == knee
    assert knee_of(1000 * np.array(costs), np.array(seconds) / 60) == knee
