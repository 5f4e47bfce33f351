"""Counters of a stream become the coverage of its source."""

from __future__ import annotations

from tierscope.domain.identity import SourceId, SourceKind
from tierscope.feed.messages import StreamCounters

SOURCE = SourceId(SourceKind.VLLM_EVENTS, "ns/ep/pod/0")


def coverage(earlier, later, **options):
    options = {"incarnation": 1, "since_unix_seconds": 10.0, "at_unix_seconds": 20.0, **options}
    return later.coverage_since(earlier, SOURCE, **options)


def test_coverage_is_what_happened_between_two_readings():
    """Counts are differences; the range begins after what was covered before."""
    earlier = StreamCounters(received=10, missing=1, undecodable=1, first_sequence=0, last_sequence=10)
    later = StreamCounters(received=15, missing=4, undecodable=1, first_sequence=0, last_sequence=18)

    covered = coverage(earlier, later, stale=True)

    assert (covered.received, covered.missing, covered.undecodable, covered.restarts) == (5, 3, 0, 0)
    assert (covered.first_sequence, covered.last_sequence) == (11, 18)
    assert covered.completeness_ratio == 5 / 8
    assert covered.stale


def test_after_a_restart_the_range_is_of_the_new_life():
    """The old life's sequences say nothing about it."""
    earlier = StreamCounters(received=10, first_sequence=0, last_sequence=500)
    later = StreamCounters(received=13, restarts=1, first_sequence=0, last_sequence=2)

    covered = coverage(earlier, later)

    assert (covered.first_sequence, covered.last_sequence, covered.restarts) == (0, 2, 1)


def test_an_interval_without_messages_covers_no_range():
    """Nothing was due, so there is no completeness either."""
    counters = StreamCounters(received=10, first_sequence=0, last_sequence=9)

    covered = coverage(counters, counters)

    assert (covered.first_sequence, covered.last_sequence) == (None, None)
    assert covered.completeness_ratio is None
