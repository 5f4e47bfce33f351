"""What becomes of the items of a stream: read, lost, begun anew, or not to be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.health import Health, Voice
from exporters.ledger import Ledger
from exporters.oddities import Finding, Oddities, Oddity
from exporters.page_state import Counted, PageState, Position, Told
from exporters.pages import Desk
from exporters.streams import PATIENCE_SECONDS, MessagesWorth, Stream, StreamReading
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.feed.messages import Gap, Message, Restart, StreamCounters
from tierscope.registry import metrics

SOURCE = SourceId(SourceKind.VLLM_EVENTS, "ns/chat/pod-0/0")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Subscriber:
    """Plays the items it is given."""

    def __init__(self):
        self.items = []
        self.undecodable = 0
        self.connected = True

    def receive(self, timeout_seconds):
        items, self.items = self.items, []
        return items

    @property
    def counters(self):
        return StreamCounters(undecodable=self.undecodable)


class Meaning:
    """Payload `b"n"` stores block n; what is no number cannot be read."""

    stale = False
    findings = ()

    def __init__(self):
        self.calls = []
        self.settled = []
        self.late = []
        self.waiting = []
        self.told = []
        self.at_unix_seconds = None

    def message(self, payload, sequence):
        if payload == b"fault":
            raise RuntimeError("a fault of ours")
        if payload == b"odd":
            return StreamReading(oddities=[Oddity("odd", BadInput("odd", where="", fix=""))], missing=3)
        if not payload.isdigit():
            raise BadInput("no number", where="test", fix="send one")
        stored = BlockEvent(Tier.L0, "e", BlockAction.STORED, (int(payload),), 1.0)
        return StreamReading([stored], at_unix_seconds=self.at_unix_seconds)

    def lost(self):
        self.calls.append("lost")
        self.stale = True

    def settle(self, monotonic_seconds):
        settled, self.settled = self.settled, []
        late, self.late = self.late, []
        return StreamReading(settled, told=self.told, late=late)

    def restart(self, at_unix_seconds):
        self.calls.append("restart")
        self.stale = False
        return StreamReading([BlockEvent(Tier.L0, "e", BlockAction.EVICTED, (9,), at_unix_seconds)])


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def published():
    return []


@pytest.fixture
def desk(clock, said, published):
    def say(message, *args):
        said.append(message % args)

    return Desk(Ledger("exporter", published.append), Oddities(say, monotonic=clock), lambda: 50.0, clock)


@pytest.fixture
def stream(clock, said):
    def say(message, *args):
        said.append(message % args)

    health = Health(SOURCE, fresh_seconds=5, since_unix_seconds=0, monotonic=clock, voice=Voice(say, say))
    return Stream(Subscriber(), Meaning(), health)


def feed(stream, desk, *items):
    stream.subscriber.items = list(items)
    return [entry.block_hashes for entry in stream.drain(desk)]


def units(stream):
    return {
        sample.labels[1]: sample.value
        for sample in stream.health.samples()
        if sample.metric is metrics.SOURCE_MESSAGES
    }


def test_messages_become_entries_in_order_in_one_batch(stream, desk, published):
    """What arrived together is published together."""
    assert feed(stream, desk, Message(0, b"1"), Message(1, b"2")) == [(1,), (2,)]
    assert [[entry.block_hashes for entry in batch] for batch in published] == [[(1,), (2,)]]
    assert units(stream) == {"received": 2, "missing": 0, "undecodable": 0}


def test_a_message_nobody_can_read_costs_itself(stream, desk, said):
    """It is counted, named once, and the rest goes on."""
    entries = feed(stream, desk, Message(0, b"x"), Message(1, b"1"), Message(2, b"y"))

    assert entries == [(1,)]
    assert units(stream) == {"received": 1, "missing": 0, "undecodable": 2}
    assert len(said) == 1
    assert "no number" in said[0]


def test_a_fault_of_ours_costs_its_message(stream, desk, said):
    """It is told as our own, and does not end the stream."""
    assert feed(stream, desk, Message(0, b"fault"), Message(1, b"1")) == [(1,)]
    assert "a fault of ours" in said[0]
    assert units(stream)["undecodable"] == 1


def test_lost_records_are_missing_as_the_messages_they_would_have_filled():
    """A publisher that dropped 1 % of its records has 99 % of its stream, however many a message holds."""
    worth = MessagesWorth()
    missing = sum(worth.of(10 if number % 100 == 0 else 0, beside=32) for number in range(3200))

    assert missing == 10
    assert MessagesWorth().of(1, beside=32) == 1


def test_a_gap_is_missing_and_makes_the_state_stale(stream, desk):
    """The coverage says how much and that what is derived from it is not to be trusted."""
    feed(stream, desk, Message(0, b"1"), Gap(1, 4), Message(5, b"2"))

    (coverage,) = stream.health.coverage(60.0)
    assert stream.meaning.calls == ["lost"]
    assert (coverage.received, coverage.missing, coverage.stale) == (2, 4, True)
    assert (coverage.first_sequence, coverage.last_sequence) == (0, 5)


def test_a_restart_parts_the_coverage(stream, desk):
    """Its entries are handed on, and the new life has ranges of its own."""
    assert feed(stream, desk, Message(7, b"1"), Restart(), Message(0, b"2")) == [(1,), (9,), (2,)]

    old, new = stream.health.coverage(60.0)
    assert (old.last_sequence, new.first_sequence, new.restarts) == (7, 0, 1)


def test_what_the_publisher_dropped_is_missing_too(stream, desk):
    """The hook tells how many records it had no room for: they have no sequence, but they are lost."""
    feed(stream, desk, Message(0, b"odd"))

    assert units(stream) == {"received": 1, "missing": 3, "undecodable": 0}


def test_frames_that_are_no_message_are_counted(stream, desk):
    """The subscriber could not even find a payload in them."""
    stream.subscriber.undecodable = 2
    feed(stream, desk)
    feed(stream, desk)

    assert units(stream)["undecodable"] == 2


def test_a_stream_without_a_publisher_is_said_to_be_down_after_a_while(stream, desk, said, clock):
    """It has time to connect; when its publisher comes, it is back."""
    stream.subscriber.connected = False
    feed(stream, desk)
    assert said == []

    clock.now = PATIENCE_SECONDS
    feed(stream, desk)
    feed(stream, desk)
    assert len(said) == 1
    assert "nobody publishes" in said[0]

    stream.subscriber.connected = True
    feed(stream, desk)
    assert said[1:] == [f"{SOURCE}: is back"]


def test_entries_that_cannot_be_published_are_told(stream, desk, said):
    """They are counted as lost to the feed, and on no metric."""

    def refuse(_):
        raise BadInput("the feed is closed", where="feed", fix="open it")

    broken = Desk(Ledger("exporter", refuse), desk.oddities, desk.clock, desk.monotonic)

    feed(stream, broken, Message(0, b"1"))

    assert "the feed is closed" in said[0]
    assert [sample.metric for sample in broken.ledger.samples()] == [metrics.FEED_BATCHES]


def test_what_an_earlier_run_had_counted_is_on_the_feed_alone(stream, desk, published, clock):
    """It is read, so that what follows is understood, and the page goes on where it stood."""
    stream.counted = Counted(Position(2, 1.0))
    stream.meaning.at_unix_seconds = 1.0
    assert feed(stream, desk, Gap(0, 0), Message(1, b"1"), Message(2, b"2")) == []
    stream.meaning.settled = [BlockEvent(Tier.L0, "e", BlockAction.STORED, (7,), 1.0)]
    stream.meaning.told = [Told("a", 1.0)]
    assert feed(stream, desk, Message(3, b"3")) == [(3,)]

    assert [entry.block_hashes for batch in published for entry in batch] == [(1,), (2,), (7,), (3,)]
    stored = [sample.value for sample in desk.ledger.samples() if sample.metric is metrics.STORED_BLOCKS]
    assert stored == [1]
    assert units(stream) == {"received": 1, "missing": 0, "undecodable": 0}
    (coverage,) = stream.health.coverage(60.0)
    assert (coverage.received, coverage.missing, coverage.first_sequence) == (3, 1, 0)


def test_a_restart_while_no_exporter_ran_is_told_once(stream, desk):
    """The next run knows how far the earlier one had read, and that this is another life."""
    stream.counted = Counted(Position(200, 1.0))
    stream.meaning.at_unix_seconds = 2.0

    feed(stream, desk, Message(0, b"1"), Message(1, b"2"))
    feed(stream, desk, Message(2, b"3"))

    (coverage,) = stream.health.coverage(60.0)
    assert (coverage.received, coverage.restarts, coverage.missing) == (3, 1, 0)


def test_a_page_is_written_down_with_what_it_counts(stream, published, desk, tmp_path):
    """As far as the stream was read when the page was made, however that went on since."""
    state = PageState(str(tmp_path / "page.json"), "exporter")
    desk = replace(desk, ledger=Ledger("exporter", published.append, state))
    stream.meaning.at_unix_seconds = 4.5
    feed(stream, desk, Message(0, b"1"), Message(1, b"x"))

    list(desk.ledger.samples())

    assert PageState(str(tmp_path / "page.json"), "exporter").position(SOURCE) == Position(1, 4.5)


def test_a_stream_that_is_opened_again_goes_on_where_it_was(stream, desk):
    """A pod that went and was found again replays what this very run has counted."""
    stream.meaning.at_unix_seconds = 4.5
    stream.counted = desk.ledger.counted(SOURCE, 3.0)
    feed(stream, desk, Message(0, b"1", before=True))

    assert desk.ledger.counted(SOURCE, 3.0) == Counted(Position(0, 4.5), True, 3.0)


def test_what_waited_for_another_stream_is_told_although_nothing_came(stream, desk, published):
    """Its own stream may be quiet when what it waited for arrives."""
    stream.meaning.settled = [BlockEvent(Tier.L0, "e", BlockAction.STORED, (4,), 1.0)]
    stream.meaning.told = [Told("a", 1.0)]

    assert feed(stream, desk) == [(4,)]
    stream.meaning.told = []
    assert feed(stream, desk) == []
    assert len(published) == 1


def test_what_waits_when_a_stream_is_over_is_told(stream, desk, published):
    """Its engine is gone: what it waited for cannot come, and its subscriber is closed."""
    stream.subscriber = None
    assert stream.finish(desk) == []
    stream.meaning.settled = [BlockEvent(Tier.L0, "e", BlockAction.STORED, (4,), 1.0)]
    stream.meaning.waiting = stream.meaning.told = [Told("a", 1.0)]

    assert [entry.block_hashes for entry in stream.finish(desk)] == [(4,)]
    assert len(published) == 1


def test_what_is_wrong_is_told_although_nothing_came(stream, desk, said):
    """Another stream may have shown it."""
    stream.meaning.findings = (Finding("wrong", Severity.INFO, BadInput("it is wrong", where="", fix="")),)

    feed(stream, desk)
    feed(stream, desk)

    assert len([message for message in said if "it is wrong" in message]) == 1


@pytest.mark.parametrize("waiting", [[], [Told("0", 1.0)]])
def test_what_is_late_is_told_once(stream, desk, waiting):
    """The end tells what it found itself, not what the last look told."""
    stream.meaning.late = ["last look"]
    feed(stream, desk)
    assert stream.late == ["last look"]

    stream.meaning.waiting = waiting
    stream.meaning.late = ["end"]
    stream.finish(desk)
    assert list(stream.late) == (["end"] if waiting else [])
