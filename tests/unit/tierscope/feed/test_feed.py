"""An exporter's feed as a collector receives it."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

import pytest

from tests.recorded_publisher import RecordedPublisher, answers_from
from tierscope.domain.batch import FeedBatch, FeedGap, FeedPosition
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent, TierSample
from tierscope.domain.tiers import Tier
from tierscope.feed.codec import encode_batch
from tierscope.feed.feed_publisher import LIVE_QUEUE_BATCHES, FeedPublisher
from tierscope.feed.feed_subscriber import FeedSubscriber
from tierscope.feed.frames import pack_sequence
from tierscope.feed.stream_subscriber import wait

ANY = "tcp://127.0.0.1:*"
PATIENCE_SECONDS = 120.0
NOW = 1_700_000_000.0


def sample(number):
    return TierSample(Tier.L1, "cache-0", NOW + number, used_bytes=float(number))


def batch(number, incarnation=1, name="node-a"):
    return FeedBatch(FeedPosition(name, incarnation, number), NOW, (sample(number),))


class Feeds:
    """Opens publishers and subscribers of one feed and closes them all in the end."""

    def __init__(self, stack):
        self.stack = stack
        self.addresses = (ANY, ANY)

    def publisher(self, incarnation, batches=0, buffer_bytes=1 << 20):
        publisher = FeedPublisher(
            "node-a", *self.addresses, buffer_bytes, lambda: NOW, incarnation=incarnation
        )
        self.stack.callback(publisher.close)
        self.addresses = (publisher.endpoint, publisher.replay_endpoint)
        for number in range(batches):
            publisher.publish([sample(number)])
        return publisher

    def subscriber(self, after=None, publisher=None, **options):
        addresses = (publisher.endpoint, publisher.replay_endpoint) if publisher else self.addresses
        return self.stack.enter_context(closing(FeedSubscriber("node-a", *addresses, after, **options)))


@pytest.fixture
def feeds():
    with ExitStack() as stack:
        yield Feeds(stack)


def receive_until(subscriber, enough):
    items = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not enough(items) and time.monotonic() < deadline:
        items += subscriber.receive(0.1)
    return items


def receive_count(subscriber, count):
    items = receive_until(subscriber, lambda items: len(items) >= count)
    assert len(items) == count, items
    return items


def test_batches_arrive_as_published_with_their_positions(feeds):
    """Entries together, in order, each batch once."""
    publisher = feeds.publisher(incarnation=1)
    subscriber = feeds.subscriber()

    positions = [publisher.publish([sample(number)]) for number in range(5)]
    items = receive_count(subscriber, 5)

    assert items == [batch(number) for number in range(5)]
    assert positions == [item.position for item in items]
    assert publisher.batches == 5


def test_a_collector_that_comes_back_gets_what_it_missed(feeds):
    """It says up to where it holds the feed; what follows is delivered, nothing twice."""
    feeds.publisher(incarnation=1, batches=6)

    items = receive_count(feeds.subscriber(after=FeedPosition("node-a", 1, 3)), 2)

    assert items == [batch(4), batch(5)]


def test_a_collector_that_does_not_read_for_a_while_misses_nothing(feeds):
    """Its queue at the exporter is short, since that costs memory beside the buffer: replays fill in."""
    publisher = feeds.publisher(incarnation=1)
    subscriber = feeds.subscriber()
    publisher.publish([sample(0)])
    receive_count(subscriber, 1)
    count = 4 * LIVE_QUEUE_BATCHES
    for number in range(1, count):
        publisher.publish([sample(number)])

    assert receive_count(subscriber, count - 1) == [batch(number) for number in range(1, count)]


def test_a_collector_that_missed_nothing_gets_nothing_again(feeds):
    """Its position is the newest batch; only the next one is delivered."""
    publisher = feeds.publisher(incarnation=1, batches=4)
    subscriber = feeds.subscriber(after=FeedPosition("node-a", 1, 3))

    publisher.publish([sample(4)])

    assert receive_count(subscriber, 1) == [batch(4)]


@pytest.mark.parametrize("batches", [2, 9])
def test_a_position_of_a_dead_incarnation_yields_all_of_the_living_one(feeds, batches, caplog):
    """Whether the new one has published less or more than the position says."""
    feeds.publisher(incarnation=2, batches=batches)

    items = receive_count(feeds.subscriber(after=FeedPosition("node-a", 1, 4)), batches)

    assert items == [batch(number, incarnation=2) for number in range(batches)]
    assert "after its batch 4; what it published after that is unknown" in caplog.text


def test_an_exporter_restarted_while_we_listen_is_heard_from_its_beginning(feeds):
    """Another incarnation, its sequence from 0, on the same addresses."""
    first = feeds.publisher(incarnation=1, batches=3)
    subscriber = feeds.subscriber()
    receive_count(subscriber, 3)

    first.close()
    feeds.publisher(incarnation=2, batches=5)
    items = receive_count(subscriber, 5)

    assert items == [batch(number, incarnation=2) for number in range(5)]
    assert subscriber.counters.restarts == 1


def test_batches_that_left_the_buffer_are_a_gap_of_their_incarnation(feeds):
    """The gap comes before the first batch that is left."""
    feeds.publisher(incarnation=1, batches=50, buffer_bytes=1_000)

    gap, *rest = receive_until(feeds.subscriber(), lambda items: items and items[-1] == batch(49))

    assert gap == FeedGap("node-a", 1, 0, rest[0].position.sequence - 1)
    assert [item.position.sequence for item in rest] == list(range(gap.last_sequence + 1, 50))


def test_a_gap_since_a_known_position_counts_from_there(feeds):
    """Batches up to the position were not lost."""
    feeds.publisher(incarnation=1, batches=50, buffer_bytes=1_000)

    items = receive_until(
        feeds.subscriber(after=FeedPosition("node-a", 1, 9)), lambda items: items and items[-1] == batch(49)
    )

    assert items[0] == FeedGap("node-a", 1, 10, items[1].position.sequence - 1)


def test_a_restart_the_stream_cannot_see_is_seen_in_the_batches(feeds):
    """No replay answers, and the new life's first batch heard happens to follow the old one's last.

    It is not joined to the old life; with nobody to replay, what came before it is reported lost.
    """
    with RecordedPublisher(lambda _: []) as exporter:
        subscriber = feeds.subscriber(publisher=exporter, replay_timeout_seconds=0.1)
        exporter.await_subscriber()
        exporter.send([b"", pack_sequence(0), encode_batch(batch(0))])
        first = receive_count(subscriber, 1)
        exporter.send([b"", pack_sequence(1), encode_batch(batch(1, incarnation=2))])
        exporter.send([b"", pack_sequence(2), encode_batch(batch(2, incarnation=2))])
        receive_until(subscriber, lambda _: subscriber.counters.restarts)
        exporter.send([b"", pack_sequence(3), encode_batch(batch(3, incarnation=2))])
        rest = receive_until(subscriber, lambda items: items and items[-1] == batch(3, incarnation=2))

    assert first == [batch(0)]
    gap, *batches = rest
    assert gap == FeedGap("node-a", 2, 0, batches[0].position.sequence - 1)
    assert all(item.position.incarnation == 2 for item in batches)


def test_a_restart_seen_only_in_the_batches_is_replayed_whole(feeds):
    """The replay address answers again: the new life is heard from its batch 0."""
    new_life = [(number, encode_batch(batch(number, incarnation=2))) for number in range(4)]

    with RecordedPublisher(lambda _: []) as exporter:
        subscriber = feeds.subscriber(publisher=exporter, replay_timeout_seconds=0.1)
        exporter.await_subscriber()
        exporter.send([b"", pack_sequence(0), encode_batch(batch(0))])
        receive_count(subscriber, 1)
        receive_until(subscriber, lambda _: subscriber.counters.failed_replays >= 2)
        exporter.answer = lambda start: answers_from(new_life, start)
        exporter.send([b"", pack_sequence(1), new_life[1][1]])
        items = receive_count(subscriber, 4)

    assert items == [batch(number, incarnation=2) for number in range(4)]


def test_a_batch_that_cannot_be_read_is_counted_and_the_rest_goes_on(feeds, caplog):
    """It is named once in the log."""
    payloads = [encode_batch(batch(0)), b"\x00garbage", encode_batch(batch(2))]

    with RecordedPublisher(lambda start: answers_from(list(enumerate(payloads)), start)) as exporter:
        subscriber = feeds.subscriber(publisher=exporter)
        items = receive_count(subscriber, 2)

    assert items == [batch(0), batch(2)]
    assert (subscriber.counters.received, subscriber.counters.undecodable) == (2, 1)
    assert "a feed batch cannot be read" in caplog.text


def test_another_exporters_feed_is_not_taken_for_ours(feeds, caplog):
    """Two addresses crossed in the settings: its batches are refused, and the log says whose they are."""
    payloads = [(0, encode_batch(batch(0, name="node-b")))]

    with RecordedPublisher(lambda start: answers_from(payloads, start)) as exporter:
        subscriber = feeds.subscriber(publisher=exporter)
        items = receive_until(subscriber, lambda _: subscriber.counters.undecodable)

    assert items == []
    assert "batch 0 of exporter 'node-b'" in caplog.text


def test_an_entry_that_cannot_travel_is_refused_and_the_feed_goes_on(feeds):
    """The next batch takes the sequence it would have had."""
    publisher = feeds.publisher(incarnation=1)

    with pytest.raises(BadInput):
        publisher.publish([BlockEvent(Tier.L0, "e", BlockAction.STORED, (-1,), NOW)])

    assert publisher.publish([sample(0)]).sequence == 0


def test_every_publisher_is_another_incarnation(feeds):
    """Also two of one name that start at the same moment; and it fits a signed 64-bit column."""
    with (
        closing(FeedPublisher("node-a", ANY, ANY, 1000, lambda: NOW)) as one,
        closing(FeedPublisher("node-a", ANY, ANY, 1000, lambda: NOW)) as other,
    ):
        incarnations = {one.incarnation, other.incarnation}

    assert len(incarnations) == 2
    assert all(0 <= incarnation < 2**63 for incarnation in incarnations)


def test_one_thread_can_wait_for_many_feeds(feeds):
    """A feed is waited on like a stream."""
    publisher = feeds.publisher(incarnation=1)
    subscriber = feeds.subscriber()
    publisher.publish([sample(0)])

    items = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not items and time.monotonic() < deadline:
        wait([subscriber], timeout_seconds=1.0)
        items += subscriber.receive(0)

    assert items == [batch(0)]
