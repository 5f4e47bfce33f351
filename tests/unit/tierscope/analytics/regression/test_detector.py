"""The detector finds what got slower and who did it, and lets prompts change as they like."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from tests.requests_seen import draw
from tierscope.analytics.regression.attribution import (
    Cause,
    PoolReadings,
    Pools,
    Reason,
    attribute,
    fit_parts,
)
from tierscope.analytics.regression.baseline import calibrate
from tierscope.analytics.regression.detector import NO_READINGS, Detector, DetectorSettings, State
from tierscope.analytics.regression.endpoint import Found
from tierscope.analytics.regression.groups import Group
from tierscope.analytics.regression.observations import joined
from tierscope.analytics.regression.words import document, sentence
from tierscope.domain.tiers import Tier

SETTINGS = DetectorSettings(calibration_requests=2000, settle_seconds=300, accept_seconds=4000)
CHANGE = 2500.0


@lru_cache
def _learnt() -> Detector:
    detector = Detector(SETTINGS)
    feed(detector, draw(np.random.default_rng(1), int(CHANGE)))
    assert detector.state is State.WATCHING
    return detector


def watched(pools: Pools = NO_READINGS, after: int = 1500, **change):
    """A detector that learnt and watched, and then a change."""
    rng = np.random.default_rng(2)
    detector = deepcopy(_learnt())
    found = feed(detector, draw(rng, after, at=CHANGE, **change), pools)
    return detector, found, rng


def feed(detector, seen, pools=NO_READINGS):
    raised = [
        detector.feed(seen.take(slice(start, start + 50)), pools) for start in range(0, len(seen.prompt), 50)
    ]
    return [one for one in raised if one is not None]


@pytest.mark.parametrize(
    "change", [{}, {"prompts": 1.6, "repeats": 0.5}, {"prompts": 0.5}, {"repeats": 0.2}, {"engine": 0.7}]
)
def test_other_prompts_and_faster_engines_raise_nothing(change):
    """A mix is no regression, and nobody is woken by good news."""
    detector, found, _ = watched(**change)

    assert (found, detector.state) == ([], State.WATCHING)


@pytest.mark.parametrize(
    ("change", "cause", "tier", "reason"),
    [
        ({"engine": 1.3}, Cause.ENGINE, None, Reason.NONE),
        ({"queue_seconds": 0.2}, Cause.QUEUE, None, Reason.NONE),
        ({"l2_speed": 6.0}, Cause.TIER_SPEED, Tier.L2, Reason.SLOW),
        ({"seeds_differ": True}, Cause.TIER_SHARE, Tier.L2, Reason.SEED),
        ({"affinity": 0.1}, Cause.TIER_SHARE, Tier.L0, Reason.ROUTING),
        ({"computed_anew": 1.0}, Cause.TIER_SHARE, Tier.L1, Reason.EVICTIONS),
    ],
)
def test_a_fault_is_found_with_its_cause(change, cause, tier, reason):
    """Since about when it was planted."""
    _, found, _ = watched(**change)

    assert len(found) == 1
    blamed = found[0].attribution
    assert (blamed.cause, blamed.tier, blamed.reason) == (cause, tier, reason)
    assert abs(found[0].since_unix_seconds - CHANGE) < 150
    assert found[0].ratio > 1.05


def test_a_change_that_is_dated_too_early_is_still_blamed_on_seeds_that_differ():
    """Requests between the date and the change find what others stored, as always; those after it nothing."""
    rng = np.random.default_rng(3)
    past = draw(rng, 2500)
    since = joined([draw(rng, 100, at=CHANGE), draw(rng, 150, at=CHANGE + 100, seeds_differ=True)])

    blamed = attribute(calibrate(past, SETTINGS.minimum_effect), fit_parts(past), since, NO_READINGS)

    assert (blamed.cause, blamed.tier, blamed.reason) == (Cause.TIER_SHARE, Tier.L2, Reason.SEED)


def test_a_tier_that_nothing_was_loaded_from_is_not_called_slow():
    """Also where loads, by what was usual long ago, are quick on the whole: L1 alone was asked."""
    past, since = draw(np.random.default_rng(3), 2500), draw(np.random.default_rng(4), 500, at=CHANGE)
    usual = past._replace(
        load_seconds=3 * past.load_seconds, ttft_seconds=past.ttft_seconds + 2 * past.load_seconds
    )
    since = since.take(since.l2 == 0)
    since = since._replace(
        load_seconds=1.5 * since.load_seconds, ttft_seconds=since.ttft_seconds + 0.5 * since.load_seconds
    )

    blamed = attribute(calibrate(past, SETTINGS.minimum_effect), fit_parts(usual), since, NO_READINGS)

    assert (blamed.cause, blamed.tier) == (Cause.TIER_SPEED, Tier.L1)
    assert 0 < blamed.factor < 1


def test_one_slow_request_at_night_is_bad_luck_and_six_tenths_more_of_many_is_not():
    """UD-54: no static threshold, no alarm of a few, none of nothing; what has risen for all is found."""
    _, of_one, _ = watched(after=1, engine=30.0)
    _, of_none, _ = watched(after=0)
    _, of_many, _ = watched(after=600, engine=1.6)

    assert (of_one, of_none) == ([], [])
    assert len(of_many) == 1
    assert of_many[0].ratio > 1.2


def test_a_pool_that_shrank_is_to_blame_for_its_loads_and_for_what_it_lost():
    """Its size says what times cannot."""
    shrunk = (PoolReadings(capacity_before=100.0, capacity_since=50.0, used_since=40.0),)

    slow, lost = watched(shrunk, l2_speed=6.0)[1], watched(shrunk, seeds_differ=True)[1]

    assert [one.attribution.reason for one in (*slow, *lost)] == [Reason.WORKER_LOST] * 2


def test_it_ends_when_requests_are_as_before_and_is_found_again():
    """Once raised it stays, without being raised again; then it is armed anew."""
    detector, found, rng = watched(engine=1.5)
    assert (len(found), detector.state) == (1, State.RAISED)

    assert feed(detector, draw(rng, 1000, at=5000.0)) == []
    assert (detector.state, detector.regression) == (State.WATCHING, None)

    assert len(feed(detector, draw(rng, 1500, at=8000.0, engine=1.5))) == 1
    assert detector.found == 2


def test_what_lasts_is_the_new_usual():
    """After `accept_seconds` the past is learnt anew, and only what comes on top is found."""
    detector, _, rng = watched(engine=1.5, after=5000)

    assert detector.state is State.WATCHING
    assert feed(detector, draw(rng, 1500, at=9000.0, engine=1.5)) == []
    assert len(feed(detector, draw(rng, 1500, at=11000.0, engine=2.2))) == 1


def test_caches_that_fill_after_a_rollout_are_not_counted_but_slower_engines_are():
    """And the rollout is named."""
    cold, slow = deepcopy(_learnt()), deepcopy(_learnt())
    for detector, change in ((cold, {"seeds_differ": True}), (slow, {"engine": 1.4})):
        rng = np.random.default_rng(5)
        detector.rollout(CHANGE)
        found = feed(detector, draw(rng, 280, at=CHANGE, **change))
        found += feed(detector, draw(rng, 1000, at=CHANGE + 280, engine=change.get("engine", 1.0)))
        assert bool(found) == (detector is slow)
    assert found[0].rollout_unix_seconds == CHANGE


def test_a_new_configuration_is_held_against_the_old_one_and_then_is_usual():
    """What got worse with it is found; what it costs from the start on is usual once it was learnt."""
    regressed, accepted = deepcopy(_learnt()), deepcopy(_learnt())
    for detector, change in ((regressed, {"engine": 1.4}), (accepted, {"engine": 1.03})):
        detector.rollout(CHANGE, reconfigured=True)
        before = detector.baseline
        found = feed(detector, draw(np.random.default_rng(6), 2600, at=CHANGE, **change))
        assert bool(found) == (detector is regressed)
        assert (detector.baseline is before) == (detector is regressed)
    assert accepted.state is State.WATCHING
    assert min(accepted.baseline.past.at_unix_seconds) >= CHANGE + SETTINGS.settle_seconds


def test_a_past_that_is_concluded_teaches_nothing_more():
    """Neither a new configuration nor what lasts is usual to it; what is raised ends when all is well."""
    reconfigured, lasting = deepcopy(_learnt()), deepcopy(_learnt())
    for detector, slower in ((reconfigured, 1.03), (lasting, 1.5)):
        detector.conclude()
        before = detector.baseline
        detector.rollout(CHANGE, reconfigured=detector is reconfigured)
        feed(detector, draw(np.random.default_rng(6), 5000, at=CHANGE, engine=slower))
        assert detector.baseline is before

    assert (reconfigured.state, lasting.state) == (State.WATCHING, State.RAISED)
    feed(lasting, draw(np.random.default_rng(7), 1000, at=CHANGE + 5000))
    assert lasting.state is State.WATCHING


def test_learning_begins_anew_with_a_new_configuration():
    """What is learnt is never half of the one and half of the other."""
    detector = Detector(SETTINGS)
    feed(detector, draw(np.random.default_rng(1), 1500))
    detector.rollout(1500.0, reconfigured=True)
    feed(detector, draw(np.random.default_rng(2), 2600, at=1500.0, engine=2.0))

    assert detector.state is State.WATCHING
    assert min(detector.baseline.past.at_unix_seconds) >= 1500.0 + SETTINGS.settle_seconds


def test_without_block_hashes_speed_is_still_judged():
    """Shares cannot be: what is reusable is not known."""
    rng = np.random.default_rng(1)
    detector = Detector(SETTINGS)

    def blind(seen):
        return seen._replace(fleet=np.zeros_like(seen.fleet), own=np.zeros_like(seen.own))

    feed(detector, blind(draw(rng, 2200)))

    assert feed(detector, blind(draw(rng, 1500, at=CHANGE, seeds_differ=True))) == []
    assert len(feed(detector, blind(draw(rng, 1500, at=5000.0, engine=1.4)))) == 1


def test_the_parts_add_up_to_the_rise():
    """Nothing of what a request waits longer is left unexplained."""
    detector, found, rng = watched(engine=1.3, prompts=1.2)
    past, since = detector.baseline.past, draw(rng, 2000, engine=1.3, prompts=1.2)
    latest = detector.latest()

    rise = since.ttft_seconds.mean() - past.ttft_seconds.mean()
    assert found
    assert sum(found[0].attribution.parts.values()) == pytest.approx(rise, rel=0.35)
    assert latest.ratio == pytest.approx(1.25, abs=0.12)


def test_a_regression_is_one_sentence_that_names_who_how_much_since_when_and_what_to_do():
    """As people read it, and as programs do."""
    _, found, _ = watched(l2_speed=6.0)
    fixed = replace(found[0], since_unix_seconds=1767261900.0, ratio=1.234, extra_seconds=0.0456)

    said = sentence(fixed, "ns/chat")

    assert said.startswith(
        "TTFT of ns/chat is 23% above what its prompts explain (0.0456 s a request) since 2026-01-01T10:05Z"
    )
    assert "loads from L2 take" in said
    assert said.endswith("look at the tier's disks, network and neighbours.")
    of = Found(Group("m", "pod"), fixed)
    assert document(of, "ns/chat", alone=True)["sentence"] == said
    assert document(of, "ns/chat", alone=True)["cause"] == "tier_speed"
    assert str(document(of, "ns/chat", alone=False)["sentence"]).startswith("TTFT of ns/chat (m on pod) is")
