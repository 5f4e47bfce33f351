"""A stretch of the past is judged by what came before it, and by nothing that came in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.stored_requests import StoredRequests, StoredTogether
from tierscope.analytics.regression.detector import DEFAULTS, DetectorSettings
from tierscope.analytics.regression.endpoint import FORGOTTEN_SECONDS, EndpointWatch
from tierscope.analytics.regression.groups import Group
from tierscope.analytics.regression.report import regress
from tierscope.domain.severity import Severity
from tierscope.domain.window import TimeSpan

SETTINGS = DetectorSettings(calibration_requests=600, settle_seconds=300.0)
POD, CANARY = "pod", "canary"


class Risen(StoredRequests):
    """Slow from 3000 s on for as long as is said, and `factor` times as slow again between two moments."""

    def __init__(self, factor: float, start: float, end: float = np.inf, *, slow_until: float = np.inf):
        super().__init__(slow_from=3000.0, slow_until=slow_until)
        self._factor, self._start, self._end = factor, start, end

    def window(self, namespace, endpoint, span):
        found = super().window(namespace, endpoint, span)
        at = found.at_unix_seconds
        again = np.where((at >= self._start) & (at < self._end), self._factor, 1.0)
        return replace(found, ttft_seconds=found.ttft_seconds * again)


def report(*parts: StoredRequests, since: float, end: float, settings: DetectorSettings = DEFAULTS):
    evidence = StoredTogether(*parts).evidence("ns", "chat", TimeSpan(0.0, end))
    return regress(evidence, "ns/chat", since, settings)


def said_of(workload: str, document: dict) -> dict:
    (found,) = [one for one in document["groups"] if one["workload"] == workload]
    return found


def test_a_report_judges_every_group_against_its_own_past():
    """And names it where the endpoint has several."""
    slow = StoredRequests(1200.0, model="large", replica="big-0", pace=3.0)

    document = report(StoredRequests(), slow, since=900.0, end=1700.0).to_json()

    assert [(one["model"], one["state"]) for one in document["groups"]] == [
        ("large", "raised"),
        ("m", "watching"),
    ]
    (found,) = document["regressions"]
    assert (found["model"], found["workload"]) == ("large", "big")
    assert found["sentence"].startswith("TTFT of ns/chat (large on big) is")
    assert document["baseline_requests"] == 1800
    assert said_of(POD, document) == {
        "model": "m", "workload": POD, "state": "watching", "before_requests": 900,
        "baseline_requests": 900, "baseline_workload": POD, "requests": 800,
    }  # fmt: skip


@pytest.mark.parametrize("before", [200, 0])
def test_a_group_with_too_few_requests_before_is_not_judged(before):
    """What it took since the moment would be its usual, and half of a fault with it."""
    late = StoredRequests(2000.0, model="large", replica="big-0", served_from=900.0 - before)

    found = report(StoredRequests(), late, since=900.0, end=2600.0, settings=SETTINGS)

    group = said_of("big", found.to_json())
    assert (group["state"], group["before_requests"], group["requests"]) == ("not_judged", before, 1700)
    assert (group["baseline_requests"], group["baseline_workload"]) == (0, None)
    assert (found.found, found.severity, found.requests) == ((), None, 1700)


def test_nothing_is_learnt_from_the_moment_on():
    """Not by a step of requests that begins before it, and not by a configuration that is new since."""
    watch = EndpointWatch(SETTINGS, learn_until_unix_seconds=530.0)

    watch.feed(StoredRequests().window("ns", "chat", TimeSpan(0.0, 2500.0)), (), [900.0])

    (one,) = watch.watched().values()
    assert one.detector.baseline is not None
    assert one.detector.baseline.past.at_unix_seconds.tolist() == [float(at) for at in range(530)]


@pytest.mark.parametrize(("pace", "state", "found"), [(1.6, "raised", [CANARY]), (1.0, "watching", [])])
def test_a_workload_that_is_new_is_told_by_whose_requests_it_is_judged(pace, state, found):
    """It has none of its own before the moment, and those of its kin count once."""
    canary = StoredRequests(replica="canary-0", served_from=1000.0, pace=pace)

    document = report(StoredRequests(), canary, since=900.0, end=2600.0, settings=SETTINGS).to_json()

    group = said_of(CANARY, document)
    assert (group["state"], group["requests"]) == (state, 1600)
    assert (group["before_requests"], group["baseline_requests"], group["baseline_workload"]) == (0, 600, POD)
    assert document["baseline_requests"] == 600
    assert [one["workload"] for one in document["regressions"]] == found


def test_a_workload_with_enough_of_its_own_is_judged_by_that():
    """Though it began with its kin's baseline, and the settings would have it wait for more."""
    canary = StoredRequests(replica="canary-0", served_from=800.0)

    document = report(StoredRequests(), canary, since=1650.0, end=2000.0, settings=SETTINGS).to_json()

    group = said_of(CANARY, document)
    assert (group["before_requests"], group["baseline_requests"], group["baseline_workload"]) == (
        850, 550, CANARY,
    )  # fmt: skip


def test_what_was_raised_before_and_goes_on_is_told_apart():
    """It is nothing that came since, and no all-clear either; once it has ended it is neither."""
    slow = StoredRequests(slow_from=3000.0)

    found = report(slow, since=4500.0, end=5500.0, settings=SETTINGS)
    document = found.to_json()

    assert (document["state"], document["severity"], document["regressions"]) == ("raised", None, [])
    (earlier,) = document["earlier"]
    assert earlier["sentence"].startswith("TTFT of ns/chat is")
    assert found.earlier[0].regression.found_unix_seconds < 4500.0
    over = report(
        StoredRequests(slow_from=3000.0, slow_until=3400.0), since=4800.0, end=5800.0, settings=SETTINGS
    )
    assert (over.verdict.value, over.found, over.earlier) == ("watching", (), ())


def test_what_is_raised_does_not_hide_what_rises_on_top_of_it():
    """It is held against the level just before the moment: how much worse, since when, and how bad."""
    found = report(Risen(2.5, 4500.0), since=4500.0, end=5500.0, settings=SETTINGS)

    (again,), (earlier,) = found.found, found.earlier
    assert (found.verdict.value, found.severity) == ("raised", Severity.CRITICAL)
    assert again.regression.since_unix_seconds == pytest.approx(4500.0, abs=60.0)
    assert again.regression.ratio == pytest.approx(2.5, rel=0.15)
    assert earlier.regression.since_unix_seconds == pytest.approx(3000.0, abs=60.0)
    assert earlier.regression.ratio == pytest.approx(1.6, rel=0.15)
    assert found.baseline_requests == SETTINGS.calibration_requests


def test_what_rose_on_top_and_ended_is_over_though_the_earlier_goes_on():
    """So a pipeline does not fail by what its release found raised."""
    found = report(Risen(2.5, 4500.0, 5000.0), since=4500.0, end=6500.0, settings=SETTINGS)

    assert (found.verdict.value, found.severity) == ("raised", Severity.INFO)
    assert len(found.found) == len(found.earlier) == 1


def test_what_was_raised_and_ended_since_is_held_against_what_was_before_it():
    """Otherwise as much as that could come back and be taken for usual."""
    back = Risen(1.6, 6000.0, slow_until=4800.0)

    ended = report(back, since=4500.0, end=5900.0, settings=SETTINGS)
    found = report(back, since=4500.0, end=7000.0, settings=SETTINGS)

    assert (ended.verdict.value, ended.found, ended.earlier) == ("watching", (), ())
    (again,) = found.found
    assert (found.verdict.value, found.severity, found.earlier) == ("raised", Severity.CRITICAL, ())
    assert again.regression.ratio == pytest.approx(1.6, rel=0.15)


def test_too_few_requests_since_it_was_raised_are_no_level_of_their_own():
    """Then what was usual before it stays, and it is told as going on."""
    found = report(StoredRequests(slow_from=3000.0), since=3400.0, end=4500.0, settings=SETTINGS)

    assert (found.verdict.value, found.severity, len(found.earlier)) == ("raised", None, 1)


def test_a_workload_that_begins_while_its_kin_is_raised_is_held_against_that():
    """Its release made nothing worse than it was; one that does is found."""
    as_slow, slower = (
        StoredRequests(replica="canary-0", served_from=4500.0, pace=pace) for pace in (1.6, 3.2)
    )

    same = report(StoredRequests(slow_from=3000.0), as_slow, since=4500.0, end=6000.0, settings=SETTINGS)
    worse = report(StoredRequests(slow_from=3000.0), slower, since=4500.0, end=6000.0, settings=SETTINGS)

    assert (same.found, same.severity, [one.group.workload for one in same.earlier]) == ((), None, [POD])
    assert [one.group.workload for one in worse.found] == [CANARY]


def test_a_group_that_serves_no_longer_is_in_the_report():
    """However long ago: it was raised when it served last, and nobody has seen it end."""
    steady, gone = StoredRequests(), StoredRequests(1000.0, model="large", replica="old-0")
    steady.stored_until = gone.stored_until = 1500.0
    begin = FORGOTTEN_SECONDS + 2000.0
    later = StoredRequests(replica="new-0", served_from=begin)

    found = report(steady, gone, later, since=900.0, end=begin + 100.0)

    states = {one.group: one.verdict.value for one in found.groups}
    assert states[Group("large", "old")] == "raised"
    assert states[Group("m", POD)] == "watching"
    assert found.severity is Severity.CRITICAL
