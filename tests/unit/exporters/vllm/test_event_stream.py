"""The KV-event stream of one engine, read anew."""

from __future__ import annotations

import pytest

from exporters.vllm.event_stream import EventStream
from exporters.vllm.residency import Residency
from tests.captured import event_payloads
from tierscope.domain.events import EvictionReason
from tierscope.domain.tiers import Tier

STOPS = (10, 75, 120)
"""Messages after which a reader is killed."""


class Reader:
    """Reads numbered messages as an exporter does."""

    def __init__(self):
        self.residency = Residency("ns/chat/pod-0/0", "events")
        self._stream = EventStream(self.residency, 0, where="events")

    def read(self, payloads, first=0):
        return [
            event
            for sequence, payload in enumerate(payloads[first:], first)
            for event in self._stream.message(payload, sequence).entries
        ]

    def restart(self, at):
        return self._stream.restart(at).entries


@pytest.fixture
def payloads(captures):
    return event_payloads(captures / "vllm" / "run-b-offload-tiers" / "kv_events.jsonl")


@pytest.mark.parametrize("stop", STOPS)
def test_a_reader_that_was_killed_reaches_what_an_unbroken_one_holds(payloads, stop):
    """UD-37: begun anew on the ring it tells all of it again word for word, and goes on from there."""
    unbroken, killed, anew = Reader(), Reader(), Reader()
    whole = unbroken.read(payloads)
    told_before = killed.read(payloads[:stop])

    told_again = anew.read(payloads)

    assert told_again == whole
    assert told_again[: len(told_before)] == told_before
    assert [anew.residency.held(tier) for tier in Tier] == [unbroken.residency.held(tier) for tier in Tier]


def test_a_reader_tells_when_the_life_it_meets_began(payloads):
    """Of what the engine held before it knows nothing: that is for those who were told."""
    first = Reader().read(payloads[:1])

    assert [(event.tier, event.reason, event.block_hashes) for event in first[:2]] == [
        (Tier.L0, EvictionReason.RESTART, ()),
        (Tier.L1, EvictionReason.RESTART, ()),
    ]
    assert {event.at_unix_seconds for event in first[:2]} == {first[-1].at_unix_seconds}


def test_a_reader_that_missed_the_beginning_does_not_tell_of_it(payloads):
    """Nor does one that saw the end of the life before: it says what was lost by name."""
    missed, saw = Reader(), Reader()
    saw.read(payloads[:1])

    told = saw.restart(50.0) + saw.read(payloads[:1])

    assert not [event for event in missed.read(payloads, first=100) if not event.block_hashes]
    assert not [event for event in told if not event.block_hashes]


def test_what_is_told_from_a_ring_that_lost_its_start_has_the_names_it_had(payloads):
    """A reader that saw less may say less of a change; which change it is, is told by its place alone."""
    whole, rest = Reader().read(payloads), Reader().read(payloads, first=100)

    def names(events):
        return {(event.tier, event.sequence, event.ordinal, event.at_unix_seconds) for event in events}

    assert names(rest) == names(event for event in whole if event.sequence and event.sequence >= 100)
