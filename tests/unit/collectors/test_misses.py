"""Computed tokens are counted by cause, each request once, while the collector runs."""

from __future__ import annotations

from dataclasses import replace

from collectors.complaints import Complaints
from collectors.misses import LATE_SECONDS, MissCounter
from tests import workloads as w
from tests.stored_requests import StoredRequests
from tierscope.analytics.misses import Cause

PROMPT = 1600


def counter(reader, clock, *endpoints, **deployed) -> MissCounter:
    deployment = w.deployment(None, l0_bytes=1e9, **deployed)
    return MissCounter(
        reader,
        lambda: [replace(deployment, endpoint=endpoint) for endpoint in endpoints],
        Complaints(lambda: 0.0),
        window_seconds=10_000.0,
        clock=lambda: clock[0],
        monotonic=lambda: 0.0,
    )


def told(counting, endpoint="chat") -> dict[str, float]:
    return {s.labels[2]: s.value for s in counting.samples() if s.labels[:2] == ("ns", endpoint)}


def test_every_request_since_the_start_is_counted_once():
    """Pairs of one prompt: the first half is new, and of the second half of it L0 served 800 tokens."""
    clock = [1000.0]
    counting = counter(StoredRequests(), clock, "chat")
    counting.look()
    assert told(counting) == {}

    for now in (1040.0, 1040.0, 1100.0):
        clock[0] = now
        counting.look()

    requests = 100
    assert sum(told(counting).values()) == requests // 2 * (PROMPT + PROMPT - 800)
    assert told(counting)[Cause.COMPULSORY] == requests // 2 * (PROMPT - 16)
    assert told(counting)[Cause.FAILURE] == requests // 2 * (PROMPT - 1 - 800)
    assert set(told(counting)) == set(Cause)


def test_what_another_collector_counts_is_left_to_it():
    """An endpoint that went away and came back is counted from then on."""
    clock = [1000.0]
    counting = counter(StoredRequests(), clock, "chat")
    deployments = counting._deployments
    counting.look()
    counting._deployments = list
    clock[0] = 1100.0
    counting.look()
    counting._deployments = deployments
    counting.look()
    assert told(counting) == {}

    clock[0] = 1140.0
    counting.look()
    assert sum(told(counting).values()) == 20 * (PROMPT + PROMPT - 800)


def test_what_may_be_late_is_left_for_the_next_look():
    """The last half minute may not be stored whole."""
    clock = [1000.0]
    counting = counter(StoredRequests(), clock, "chat")
    counting.look()
    clock[0] = 1000.0 + LATE_SECONDS + 10
    counting.look()

    assert sum(told(counting).values()) == 20 * (PROMPT + PROMPT - 800)


def test_an_endpoint_of_unknown_sizes_has_no_counts_and_a_broken_one_does_not_disturb():
    """Nothing is guessed; the others go on."""
    clock = [1000.0]
    stored = StoredRequests()
    stored.broken = "broken"
    counting = counter(stored, clock, "broken", "chat")
    unknown = counter(stored, clock, "chat", bytes_per_token=None)
    counting.look()
    unknown.look()
    clock[0] = 1100.0
    counting.look()
    unknown.look()

    assert told(counting, "broken") == {}
    assert sum(told(counting).values()) > 0
    assert told(unknown) == {}
