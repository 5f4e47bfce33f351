"""Is a source up, how much of it came, and what is said about it."""

from __future__ import annotations

import pytest

from exporters.health import Health, Units, Voice
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.registry import metrics

SOURCE = SourceId(SourceKind.VLLM_METRICS, "ns/chat/pod-0/0")
DOWN = SourceUnreadable("nobody there", where="http://engine", fix="start it")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def health(clock, said):
    def say(message, *args):
        said.append(message % args)

    return Health(SOURCE, fresh_seconds=10, since_unix_seconds=100.0, monotonic=clock, voice=Voice(say, say))


def value(health, metric, *labels):
    values = {sample.labels[1:]: sample.value for sample in health.samples() if sample.metric is metric}
    return values.get(labels)


def test_before_its_first_answer_a_source_is_not_up_and_not_complete(health):
    """Nothing was due yet, so completeness is absent, not one and not zero."""
    assert value(health, metrics.SOURCE_UP) == 0
    assert value(health, metrics.COMPLETENESS) is None
    assert value(health, metrics.SOURCE_READ_SECONDS) is None


def test_an_answer_speaks_for_a_source_for_a_while(health, clock):
    """A reader that hangs for good leaves no source up for ever."""
    health.succeeded(0.25)
    assert value(health, metrics.SOURCE_UP) == 1
    assert value(health, metrics.SOURCE_READ_SECONDS) == 0.25

    clock.now = 11

    assert value(health, metrics.SOURCE_UP) == 0


def test_being_down_is_said_once_then_once_a_minute_and_being_back_once(health, said, clock):
    """Five failures in half a minute are one line; the next outage is news again."""
    for clock.now in (0, 5, 10, 20, 30):
        health.failed(DOWN, 3.0)
    assert value(health, metrics.SOURCE_UP) == 0
    assert len(said) == 1
    assert "start it" in said[0]

    clock.now = 61
    health.failed(DOWN)
    assert len(said) == 2

    health.succeeded()
    health.succeeded()
    assert said[2:] == [f"{SOURCE}: is back"]

    health.failed(DOWN)
    assert len(said) == 4


def test_coverage_tells_what_happened_since_it_was_last_told(health):
    """Ranges and counts are of the interval; nothing new is no entry."""
    for sequence in range(3):
        health.take(Units(received=1), sequence=sequence)
    health.take(Units(missing=2), sequence=4)
    health.take(Units(undecodable=1), sequence=5)
    (first,) = health.coverage(110.0)
    assert health.coverage(120.0) == []
    health.take(Units(received=1), sequence=6)
    (second,) = health.coverage(130.0)

    assert (first.since_unix_seconds, first.at_unix_seconds) == (100.0, 110.0)
    assert (first.received, first.missing, first.undecodable) == (3, 2, 1)
    assert (first.first_sequence, first.last_sequence) == (0, 5)
    assert first.completeness_ratio == 0.5
    assert (second.since_unix_seconds, second.first_sequence, second.last_sequence) == (110.0, 6, 6)
    assert value(health, metrics.COMPLETENESS) == 4 / 7
    assert value(health, metrics.SOURCE_MESSAGES, "missing") == 2


def test_a_range_begins_with_what_was_lost(health):
    """A stream joined too late covers from its first message, which is missing."""
    health.take(Units(missing=10), sequence=9)
    health.take(Units(received=1), sequence=10)

    (coverage,) = health.coverage(110.0)

    assert (coverage.first_sequence, coverage.last_sequence) == (0, 10)


def test_a_restart_parts_the_lives(health):
    """What came before it belongs to the old incarnation, what comes after to the new one."""
    health.take(Units(received=1), sequence=7)
    health.restarted(105.0)
    health.take(Units(received=1), sequence=0)

    old, new = health.coverage(110.0)

    assert (old.incarnation, old.at_unix_seconds, old.last_sequence, old.restarts) == (0, 105.0, 7, 0)
    assert (new.incarnation, new.since_unix_seconds, new.first_sequence, new.restarts) == (1, 105.0, 0, 1)
    assert value(health, metrics.SOURCE_RESTARTS) == 1


def test_staleness_stays_until_it_is_lifted(health):
    """It is a state, not an event of one interval."""
    health.mark_stale(True)
    health.take(Units(missing=1), sequence=0)
    health.coverage(110.0)
    health.take(Units(received=1), sequence=1)
    (still,) = health.coverage(120.0)
    health.mark_stale(False)
    health.take(Units(received=1), sequence=2)
    (lifted,) = health.coverage(130.0)

    assert still.stale
    assert not lifted.stale


def test_units_without_a_sequence_are_counted_too(health):
    """Frames nobody can read have no number."""
    health.take(Units(undecodable=1))

    (coverage,) = health.coverage(110.0)

    assert (coverage.undecodable, coverage.first_sequence) == (1, None)
