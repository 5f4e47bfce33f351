"""Intervals after outcomes: wide enough for what came, and never narrower than without."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import workloads as w
from tierscope.advice.compared import Compared, Observed
from tierscope.advice.document import parse_recommendation, utc
from tierscope.advice.learned import UNTRIED, Learned, learned_from
from tierscope.advice.predictions import Estimate, HitRatios, Predicted
from tierscope.advice.recommend import recommend
from tierscope.domain.units import GIB

shares = st.floats(0.0, 1.0)
seconds = st.floats(0.01, 10.0)
SAID = Estimate(0.7, 0.65, 0.75)
TIME = Estimate(0.2, 0.15, 0.25)


def plain(said: Estimate = SAID) -> Predicted:
    """A prediction before any outcome, the same of every tier."""
    return Predicted(HitRatios(said, said, said, said), None, None, None, TIME)


def outcome(
    came: float = 0.7, mean: float | None = None, widened: Learned = UNTRIED, said: Estimate = SAID
) -> Compared:
    """A change whose intervals, without outcomes, are `said` and `TIME`, and what came of it."""
    return Compared(
        advised_at=utc(0.0),
        changes=("tier_size:l1",),
        in_force_since=utc(1.0),
        in_force_until=None,
        predicted=widened.widened(plain(said)),
        observed=Observed(500, came, came, came, None, None, None, mean),
        kept=None,
        absent_because=None,
    )


def holds(estimate: Estimate, came: float) -> bool:
    return estimate.low - 1e-9 <= came <= estimate.high + 1e-9


@given(came=st.lists(st.tuples(shares, seconds), max_size=60))
def test_widened_intervals_had_held_what_came(came):
    """Of fewer than 19 outcomes all, of more 95 % of them and one more; each tier and time for itself."""
    learned = learned_from([outcome(*one) for one in came])

    total = [
        holds(replace(SAID, low=SAID.low - learned.total, high=SAID.high + learned.total), share)
        for share, _ in came
    ]
    times = [holds(learned.ttft(TIME), mean) for _, mean in came]
    for held in (total, times):
        assert sum(held) >= min(len(came), 0.95 * (len(came) + 1))
    assert learned.l1 == learned.l0 == learned.total
    assert learned.l2 == 0.0


@given(came=st.lists(st.tuples(shares, seconds), max_size=30))
def test_nothing_makes_an_interval_narrower(came):
    """However right earlier advice was, the next interval is at least the one without outcomes."""
    learned = learned_from([outcome(*one) for one in came])

    assert min(learned.l0, learned.l1, learned.l2, learned.total, learned.ttft_ratio) >= 0.0
    wider = learned.ttft(TIME)
    assert wider.low <= TIME.low
    assert wider.high >= TIME.high


@given(ends=st.tuples(shares, shares), wide=shares, came=shares)
def test_an_outcome_counts_the_same_however_wide_its_interval_was(ends, wide, came):
    """Distances are from the interval without outcomes, though the one that was given ends at 0 and 1."""
    said = Estimate(sum(ends) / 2, min(ends), max(ends))
    earlier = Learned(1, 1, wide, wide, wide, wide, 10 * wide)
    told, under = (
        replace(learned_from([outcome(came, 0.3, widened, said)]), missed=0) for widened in (UNTRIED, earlier)
    )
    assert under == told


@given(ends=st.tuples(shares, shares), wide=shares)
def test_wider_intervals_of_shares_stay_inside_zero_and_one(ends, wide):
    """And hold the narrower ones, which stand beside them."""
    said = Estimate(sum(ends) / 2, min(ends), max(ends))
    wider = Learned(1, 1, wide, wide, wide, wide).widened(plain(said))

    assert 0.0 <= wider.hit_ratio.l1.low <= said.low
    assert said.high <= wider.hit_ratio.l1.high <= 1.0
    assert (wider.before_outcomes is None) == (wide == 0.0)
    assert wider.before_outcomes is None or wider.before_outcomes.hit_ratio == plain(said).hit_ratio


def test_one_miss_among_many_is_within_what_an_interval_may_miss():
    """The 20th outcome lets one of them be outside; before that, it must be held."""
    right = [outcome(0.7, 0.2)] * 38

    assert learned_from([outcome(0.5, 0.2), *right[:17]]).total == pytest.approx(0.15)
    assert learned_from([outcome(0.5, 0.2), *right]).total == 0.0
    assert learned_from([outcome(0.5, 0.2), *right]).missed == 1


def test_what_is_not_measured_yet_teaches_nothing():
    """A change in force for minutes is no outcome."""
    waiting = replace(outcome(), observed=None, absent_because="caches fill")

    assert learned_from([waiting]) == UNTRIED
    assert learned_from([waiting]).summary() is None


def test_the_next_advice_has_wider_intervals_after_a_miss():
    """The same evidence, with and without a change that came 10 points low and half as slow again."""
    deployment = w.deployment(64.0 * GIB, 100.0 * GIB)
    evidence = w.served(w.window(w.cycle(4, 400)), deployment)
    learned = learned_from([outcome(0.55, 0.375)])
    plain = recommend(evidence, deployment, now_unix_seconds=w.NOW)
    after = recommend(evidence, deployment, now_unix_seconds=w.NOW, learned=learned)

    assert plain.evidence.outcomes is None
    assert (after.evidence.outcomes.compared, after.evidence.outcomes.missed) == (1, 1)
    assert plain.changes
    for one, other in zip(plain.changes, after.changes, strict=True):
        was, now = one.predicted.hit_ratio.total, other.predicted.hit_ratio.total
        assert (other.from_, other.to, now.value) == (one.from_, one.to, was.value)
        assert one.predicted.before_outcomes is None
        assert other.predicted.before_outcomes.hit_ratio == one.predicted.hit_ratio
        assert other.predicted.before_outcomes.ttft_mean_seconds == one.predicted.ttft_mean_seconds
        assert now.low == pytest.approx(max(was.low - 0.1, 0.0))
        assert now.high == pytest.approx(min(was.high + 0.1, 1.0))
        assert other.revert_if[0].value <= one.revert_if[0].value
    assert parse_recommendation(after.to_json()) == after
