"""A stretch of the past is judged by what came before it, and by nothing that came in it."""

from __future__ import annotations

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
