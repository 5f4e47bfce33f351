"""Computed tokens, and what they took, are counted by cause, each request once, while the collector runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from collectors.complaints import Complaints
from collectors.misses import LATE_SECONDS, LEAST_PAUSE_SECONDS, MissCounter, pause_seconds
from dashboards.rules.recording import WINDOW
from tests import workloads as w
from tests.stored_requests import StoredRequests
from tierscope.advice.explain import explain
from tierscope.advice.thresholds import MIN_TTFT_RECORDS
from tierscope.analytics.misses import Cause
from tierscope.domain.deployment import Objective
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.window import TimeSpan
from tierscope.domain.wiring import Wiring
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS

PROMPT = 1600
INSTANCE = InstanceFigures(name="ml.example", price_per_hour=7.2, replicas=2)
WIRED = Wiring(instance_types=(INSTANCE.name,))
IN_EUR = Objective(prices=Prices(currency="EUR", instances=(INSTANCE,)))


def counter(reader, clock, *endpoints, window_seconds=10_000.0, **deployed) -> MissCounter:
    deployment = w.deployment(None, l0_bytes=1e9, **deployed)
    return MissCounter(
        reader,
        lambda: [replace(deployment, endpoint=endpoint) for endpoint in endpoints],
        Complaints(lambda: 0.0),
        window_seconds=window_seconds,
        clock=lambda: clock[0],
        monotonic=lambda: 0.0,
        turn=nullcontext(),
    )


def told(counting, endpoint="chat") -> dict[str, float]:
    return of(MISS_TOKENS, counting, endpoint)


def of(metric, counting, endpoint="chat") -> dict[str, float]:
    """Values of one metric by cause."""
    ours = (s for s in counting.samples() if s.metric is metric and s.labels[:2] == ("ns", endpoint))
    return {sample.labels[2]: sample.value for sample in ours}


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


def test_what_a_store_that_refused_gets_later_is_counted_then():
    """Half a minute without requests at the end of what is there may be requests on their way."""
    clock, reader = [1000.0], StoredRequests()
    counting = counter(reader, clock, "chat")
    counting.look()
    reader.stored_until = 1000
    clock[0] = 1100.0
    counting.look()
    counted = sum(told(counting).values())
    reader.stored_until = np.inf
    clock[0] = 1140.0
    counting.look()

    assert counted == (1000 - 970) // 2 * (PROMPT + PROMPT - 800)
    assert sum(told(counting).values()) == (1110 - 970) // 2 * (PROMPT + PROMPT - 800)


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


def test_seconds_and_money_are_those_of_the_explanation():
    """One look at all there is says what `explain` says of the same requests."""
    clock, stored = [1000.0], StoredRequests(served_from=970.0)
    counting = counter(stored, clock, "chat", objective=IN_EUR, wiring=WIRED)
    counting.look()
    clock[0] = 1500.0
    counting.look()

    span = TimeSpan(clock[0] - LATE_SECONDS - 10_000.0, clock[0] - LATE_SECONDS)
    evidence = stored.evidence("ns", "chat", span)
    misses = explain(evidence, counting._deployments()[0], ("ns", "chat"), span).misses
    assert misses.currency == "EUR"
    assert of(MISS_TOKENS, counting) == misses.causes
    assert of(MISS_SECONDS, counting) == misses.seconds
    assert of(MISS_COST, counting) == misses.money
    assert {s.labels[3] for s in counting.samples() if s.metric is MISS_COST} == {"EUR"}


def test_a_look_with_few_requests_is_priced_by_those_before_them():
    """70 requests alone do not tell what a token takes; with those before them they do: 0.1 ms."""
    clock = [1000.0]
    counting = counter(StoredRequests(), clock, "chat")
    counting.look()
    clock[0] = 1070.0
    counting.look()

    assert MIN_TTFT_RECORDS > 70
    assert of(MISS_SECONDS, counting) == {
        cause: pytest.approx(1e-4 * tokens, rel=0.1) for cause, tokens in told(counting).items()
    }


@pytest.mark.parametrize(
    "deployed",
    [
        {},
        {"wiring": WIRED},
        {"objective": IN_EUR},
        {"objective": Objective(prices=Prices()), "wiring": WIRED},
    ],
    ids=["nothing", "no prices", "no instance type", "no price of the type"],
)
def test_without_a_price_there_is_no_money(deployed):
    """Seconds are told all the same."""
    clock = [1000.0]
    counting = counter(StoredRequests(), clock, "chat", **deployed)
    counting.look()
    clock[0] = 1100.0
    counting.look()

    assert sum(of(MISS_SECONDS, counting).values()) > 0
    assert of(MISS_COST, counting) == {}


RARE_SCRAPES_SECONDS = 60.0


class Pauses:
    """A collector's end that comes after the first pause, and remembers it."""

    def is_set(self):
        return False

    def wait(self, seconds):
        self.seconds = seconds
        return True


def pause_after(took_seconds) -> float:
    """What a counter waits for after a look that took so long."""
    counting = counter(StoredRequests(), [1000.0], "chat")
    counting._monotonic = iter((50.0, 50.0 + took_seconds)).__next__
    counting._stopping = Pauses()
    counting._run()
    return counting._stopping.seconds


@pytest.mark.parametrize("took_seconds", [0.0, 2.0, 5.0, 9.0, 15.0, 30.0, 60.0, 90.0])
def test_what_is_recorded_of_an_endpoint_in_use_never_falls_to_0_between_two_looks(took_seconds):
    """A busy collector's looks are near enough that every window has a count, and a scrape on either side."""
    window_seconds = 60 * float(WINDOW.removesuffix("m"))
    between = took_seconds + pause_after(took_seconds)

    assert between + 2 * RARE_SCRAPES_SECONDS <= window_seconds


@pytest.mark.parametrize(
    ("took_seconds", "most_of_a_core"), [(3.0, 0.05), (8.0, 0.05), (18.0, 0.1), (1e4, 0.5)]
)
def test_a_look_costs_a_twentieth_of_a_core_where_that_is_often_enough(took_seconds, most_of_a_core):
    """And never more than half of one, however long the history."""
    assert took_seconds / (took_seconds + pause_seconds(took_seconds)) <= most_of_a_core


def test_short_looks_are_a_minute_apart():
    """Nobody reads them more often."""
    assert pause_seconds(0.01) == LEAST_PAUSE_SECONDS


class Untold(StoredRequests):
    """Of the requests from 1200 to 2400 nobody told a TTFT."""

    def window(self, namespace, endpoint, span):
        window = super().window(namespace, endpoint, span)
        at = window.at_unix_seconds
        return replace(window, ttft_seconds=np.where((at >= 1200) & (at < 2400), np.nan, window.ttft_seconds))


def test_seconds_and_money_are_absent_until_they_are_known():
    """Where TTFT explains nothing, tokens are counted alone: no seconds, and no zero."""
    clock = [1700.0]
    counting = counter(Untold(), clock, "chat", window_seconds=400.0, objective=IN_EUR, wiring=WIRED)
    counting.look()
    clock[0] = 1800.0
    counting.look()

    assert sum(told(counting).values()) > 0
    assert of(MISS_SECONDS, counting) == {}
    assert of(MISS_COST, counting) == {}


def test_a_counter_never_falls():
    """While nothing tells what a token takes they stand, and where it takes less, they rise more slowly."""
    clock = [1000.0]
    stored = Untold(slow_from=0.0, slow_until=2400.0)
    counting = counter(stored, clock, "chat", window_seconds=400.0, objective=IN_EUR, wiring=WIRED)
    before, stood = {}, set()
    for now in range(1000, 3400, 100):
        clock[0] = float(now)
        counting.look()
        after = {(one.metric, one.labels): one.value for one in counting.samples()}
        assert all(after[series] >= value for series, value in before.items())
        stood |= {now} if before and sum(of(MISS_SECONDS, counting).values()) == known(before) else set()
        before = after

    assert stood >= {1700, 2000, 2400}
    assert {metric for metric, _ in before} == {MISS_TOKENS, MISS_SECONDS, MISS_COST}


def known(samples) -> float:
    """Seconds of all causes."""
    return sum(value for (metric, _), value in samples.items() if metric is MISS_SECONDS)
