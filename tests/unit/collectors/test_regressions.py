"""The collector's watcher: what is new in the store goes through the detector, once."""

from __future__ import annotations

from collectors.complaints import Complaints
from collectors.regressions import LATE_SECONDS, RegressionWatcher
from tests.stored_requests import StoredRequests
from tierscope.analytics.regression.detector import DetectorSettings
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import StoreUnusable
from tierscope.registry import regression_metrics as metrics

SETTINGS = DetectorSettings(calibration_requests=1500)


def watcher(reader, clock, *endpoints):
    return RegressionWatcher(
        reader,
        lambda: [Deployment("ns", endpoint, "m", 1) for endpoint in endpoints],
        Complaints(lambda: 0.0),
        regress_seconds=15.0,
        history_seconds=100_000.0,
        clock=lambda: clock[0],
        settings=SETTINGS,
    )


def values(watcher) -> dict:
    return {(sample.metric, sample.labels): sample.value for sample in watcher.samples()}


def test_a_slow_engine_is_shown_with_its_cause_until_it_is_well_again():
    """Read in stretches, as it comes in."""
    stored = StoredRequests(slow_from=2500.0, slow_until=4000.0)
    clock = [2000.0]
    watching = watcher(stored, clock, "chat")
    watching.look()
    assert values(watching)[metrics.DETECTOR_STATE, ("ns", "chat", "m", "pod", "watching")] == 1
    assert not [one for one in watching.samples() if one.metric is metrics.TTFT_REGRESSION]

    clock[0] = 3500.0
    watching.look()
    (raised,) = [one for one in watching.samples() if one.metric is metrics.TTFT_REGRESSION]
    assert raised.labels[:7] == ("ns", "chat", "m", "pod", "engine", "none", "none")
    assert raised.value > 1.2
    assert values(watching)[metrics.TTFT_RISE, ("ns", "chat", "m", "pod", "engine")] > 0.02

    clock[0] = 5500.0
    watching.look()
    assert not [one for one in watching.samples() if one.metric is metrics.TTFT_REGRESSION]
    assert values(watching)[metrics.REGRESSIONS, ("ns", "chat", "m", "pod")] == 1


def test_each_stretch_is_read_once_and_what_may_be_late_is_left():
    """No gap and no overlap between two looks."""
    stored = StoredRequests()
    clock = [5000.0]
    watching = watcher(stored, clock, "chat")
    watching.look()
    clock[0] = 5015.0
    watching.look()

    ends = [span.end_unix_seconds for span in stored.asked]
    assert [span.start_unix_seconds for span in stored.asked[1:]] == ends[:-1]
    assert ends[-1] == 5015.0 - LATE_SECONDS


def test_what_comes_in_late_is_read_when_it_has_come():
    """A collector that was down, or lags behind, misses nothing of what it still gets."""
    stored = StoredRequests(slow_from=2500.0)
    stored.stored_until = 900.0
    clock = [3400.0]
    watching = watcher(stored, clock, "chat")
    watching.look()
    stored.stored_until = 3500.0
    clock[0] = 3530.0
    watching.look()

    assert [one for one in watching.samples() if one.metric is metrics.TTFT_REGRESSION]


def test_an_endpoint_that_cannot_be_read_does_not_disturb_the_others():
    """And is read from where it stood when it can be."""
    stored = StoredRequests()
    stored.broken = "chat"
    clock = [5000.0]
    watching = watcher(stored, clock, "chat", "rag")
    watching.look()

    states = values(watching)
    assert states[metrics.DETECTOR_STATE, ("ns", "chat", "m", "", "learning")] == 1
    assert states[metrics.DETECTOR_STATE, ("ns", "rag", "m", "pod", "watching")] == 1
    assert isinstance(stored.error, StoreUnusable)
