"""Growth of cumulative counters, over restarts of their owner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.counters import Counters


def test_the_first_reading_is_what_the_rest_is_measured_against():
    """What was counted before we looked is not ours."""
    counters = Counters()

    assert counters.advance({"a": 100}) is None
    assert counters.advance({"a": 130}).by == {"a": 30}


def test_a_counter_that_was_absent_counts_from_zero():
    """Connector series appear with their first sample."""
    counters = Counters()
    counters.advance({"a": 1})

    assert counters.advance({"a": 1, "b": 5}).by == {"a": 0, "b": 5}


def test_a_counter_that_is_absent_for_a_while_is_not_counted_twice():
    """Its old value is still what it is measured against when it comes back."""
    counters = Counters()
    counters.advance({"a": 1, "b": 5})
    counters.advance({"a": 1})

    assert counters.advance({"a": 1, "b": 7}).by["b"] == 2


def test_a_fall_means_that_all_began_anew():
    """One that fell tells of the restart; the others count from zero too, even those that look grown."""
    counters = Counters()
    counters.advance({"a": 100, "b": 10})

    growth = counters.advance({"a": 7, "b": 12})

    assert growth.restarted
    assert growth.by == {"a": 7, "b": 12}


def test_a_new_beginning_is_seen_even_where_no_counter_fell():
    """A busy engine can overtake its old counts before the next reading."""
    counters = Counters()
    counters.advance({"a": 10}, created=1000.0)

    growth = counters.advance({"a": 50}, created=2000.0)

    assert growth.restarted
    assert growth.by == {"a": 50}


def test_a_page_without_a_beginning_is_no_restart():
    """Servers with several processes do not say when their counters began."""
    counters = Counters()
    counters.advance({"a": 10}, created=1000.0)

    assert not counters.advance({"a": 10}, created=None).restarted
    assert not counters.advance({"a": 10}, created=1000.0).restarted


@given(
    lives=st.lists(
        st.lists(st.integers(0, 50), min_size=1, max_size=5).map(lambda steps: [0, *steps]), min_size=1
    )
)
def test_growth_over_any_restarts_is_what_was_counted_after_the_first_reading(lives):
    """With the beginning known, nothing is lost or doubled when every life is read to its end."""
    counters = Counters()
    grown = 0
    for life, steps in enumerate(lives):
        value = 0
        for step in steps:
            value += step
            growth = counters.advance({"a": value}, created=life)
            grown += growth.by["a"] if growth else 0

    assert grown == sum(sum(steps) for steps in lives)
