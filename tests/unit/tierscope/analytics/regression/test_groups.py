"""Models and workloads behind one endpoint are judged each by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.stored_requests import StoredRequests, StoredTogether
from tierscope.analytics.regression.detector import DetectorSettings, State
from tierscope.analytics.regression.endpoint import FORGOTTEN_SECONDS, EndpointWatch
from tierscope.analytics.regression.engines import Engines
from tierscope.analytics.regression.groups import MOST_GROUPS, OTHERS, Group, Groups
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import UNKNOWN_MODEL
from tierscope.domain.window import TimeSpan

SETTINGS = DetectorSettings(calibration_requests=600, settle_seconds=300.0)
SMALL, LARGE = StoredRequests(), StoredRequests(model="large", replica="big-0", pace=3.0)


def window_of(*parts: StoredRequests, start: float = 0.0, end: float = 4000.0):
    return StoredTogether(*parts).window("ns", "chat", TimeSpan(start, end))


def fed(*parts: StoredRequests, end: float = 1500.0):
    watch = EndpointWatch(SETTINGS)
    found = []
    for start in np.arange(0.0, end, 500.0):
        found += watch.feed(window_of(*parts, start=float(start), end=float(start) + 500.0))
    return watch, found


def test_a_model_that_gets_slower_is_named_and_the_other_is_not():
    """One baseline of both would have hidden half of it, and blamed both."""
    watch, found = fed(StoredRequests(), StoredRequests(900.0, model="large", replica="big-0", pace=3.0))

    assert [one.group for one in found] == [Group("large", "big")]
    assert {group: one.state for group, one in watch.detectors().items()} == {
        Group("large", "big"): State.RAISED,
        Group("m", "pod"): State.WATCHING,
    }


def test_traffic_that_moves_between_models_is_no_regression():
    """Three times as long is usual for the larger; more of its requests make the mean of both worse."""
    watch, found = fed(
        StoredRequests(), LARGE, StoredRequests(model="large", replica="big-1", pace=3.0, served_from=900.0)
    )

    assert not found
    assert set(watch.detectors()) == {Group("large", "big"), Group("m", "pod")}


def test_a_slow_canary_is_held_against_the_replicas_that_serve_its_model():
    """A workload that is new has nothing of its own to be held against; its sentence tells of the rollout."""
    _, found = fed(StoredRequests(), StoredRequests(replica="canary-0", served_from=900.0, pace=1.6))

    (one,) = found
    assert one.group == Group("m", "canary")
    assert one.regression.ratio > 1.3
    assert one.regression.rollout_unix_seconds == 900.0


def test_a_good_canary_gets_a_baseline_of_its_own_unnoticed():
    """As fast as the rest: nothing is raised, and from the settling on it learns."""
    watch, found = fed(StoredRequests(), StoredRequests(replica="canary-0", served_from=800.0), end=2000.0)

    canary = watch.detectors()[Group("m", "canary")]
    assert not found
    assert canary.state is State.WATCHING
    assert canary.baseline is not watch.detectors()[Group("m", "pod")].baseline


def test_what_serves_no_longer_is_not_shown_and_then_forgotten():
    """Its alert does not outlive it by more than an hour; another group may have its place after a day."""
    gone = StoredRequests(replica="old-0")
    gone.stored_until = 700.0
    watch, _ = fed(StoredRequests(), gone, end=4500.0)
    assert set(watch.detectors()) == {Group("m", "pod")}

    late = window_of(StoredRequests(), start=FORGOTTEN_SECONDS + 3000.0, end=FORGOTTEN_SECONDS + 3100.0)
    watch.feed(late)
    watch.forget()
    returned = StoredRequests(replica="old-0")
    begin = FORGOTTEN_SECONDS + 3100.0
    watch.feed(window_of(StoredRequests(), returned, start=begin, end=begin + 100.0))

    assert watch.detectors()[Group("m", "old")].found == 0


def test_engines_that_are_gone_leave_nothing_behind():
    """A group outlives its replicas: every rollout of a Deployment brings engines of other names."""
    watch, days = EndpointWatch(SETTINGS), 4
    for day in range(days):
        begin = day * (FORGOTTEN_SECONDS + 200.0)
        pod = StoredRequests(replica=f"pod-{day}", served_from=begin)
        watch.feed(window_of(pod, start=begin, end=begin + 100.0))
        watch.forget()

    assert set(watch.watched()) == {Group("m", "pod")}
    assert len(watch._engines) == 1
    assert list(watch._groups._serves) == [EngineId("ns", "chat", f"pod-{days - 1}")]


def test_an_engine_has_no_number_that_another_had():
    """It would be taken to hold what that one was asked for; one that still serves keeps its own."""
    engines = Engines()
    steady, gone, late = (StoredRequests(replica=f"pod-{number}") for number in range(3))

    first = engines.numbers(window_of(gone, steady, end=10.0))
    engines.numbers(window_of(steady, start=500.0, end=510.0))
    forgotten = engines.forget_silent(400.0)
    then = engines.numbers(window_of(late, steady, gone, start=510.0, end=520.0))

    assert forgotten == [EngineId("ns", "chat", "pod-1")]
    assert then[1] == first[1]
    assert len({*first, *then}) == 4


def test_groups_of_an_endpoint_are_bounded():
    """Those beyond are judged together, under one name."""
    window = window_of(SMALL, end=40.0)
    many = tuple(EngineId("ns", "chat", f"{letter}{letter}-0") for letter in "abcdefghijklmnopqrst")
    engine = np.arange(40, dtype=np.int32) % len(many)

    known, of_request = Groups().of(replace(window, engines=many, engine=engine))

    assert len(known) == MOST_GROUPS + 1
    assert OTHERS in known
    assert (of_request == known.index(OTHERS)).sum() == 2 * (len(many) - MOST_GROUPS)


def test_a_group_that_tells_no_ttft_takes_no_place_from_one_that_does():
    """Nothing can be judged by it; were it to hold one of the few places it would hold it for ever."""
    groups = Groups()
    silent = tuple(EngineId("ns", "chat", f"silent{letter}-0") for letter in "abcdefghijklmnop")
    window = window_of(SMALL, end=40.0)
    engine = np.arange(40, dtype=np.int32) % len(silent)
    untold = np.full(40, np.nan)

    nobody, of_none = groups.of(replace(window, engines=silent, engine=engine, ttft_seconds=untold))
    known, of_request = groups.of(window)

    assert len(silent) == MOST_GROUPS
    assert (nobody, set(of_none.tolist())) == ((), {-1})
    assert (known, set(of_request.tolist())) == ((Group("m", "pod"),), {0})


def test_requests_without_a_ttft_are_of_the_group_of_their_engine():
    """Its replicas that begin are told by them, too."""
    groups = Groups()
    window = window_of(SMALL, end=10.0)
    untold = replace(window, ttft_seconds=np.full(10, np.nan))

    assert groups.of(untold)[0] == ()
    assert groups.of(window)[0] == groups.of(untold)[0] == (Group("m", "pod"),)


def test_requests_before_the_model_is_told_count_to_what_the_engine_serves():
    """Otherwise the first ones of every engine would be a group that never learns."""
    window = window_of(SMALL, end=10.0)
    model = np.array([0] * 2 + [1] * 8, dtype=np.int32)

    known, of_request = Groups().of(replace(window, models=(UNKNOWN_MODEL, "m"), model=model))

    assert known == (Group("m", "pod"),)
    assert not of_request.any()
