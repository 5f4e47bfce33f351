"""Publisher and subscriber over real sockets, and the subscriber against what real engines sent."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest
import zmq

from tests.ports import unused_endpoint
from tests.recorded_publisher import RecordedPublisher, answers_from, recorded_frames
from tests.streaming import (
    PATIENCE_SECONDS,
    numbered,
    receive_count,
    receive_until,
    subscribed,
)
from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.feed.frames import END, pack_sequence
from tierscope.feed.stream_publisher import StreamPublisher
from tierscope.feed.stream_subscriber import Gap, Message, Restart, StreamSubscriber, wait

ANY = "tcp://127.0.0.1:*"


@pytest.fixture
def publisher():
    with closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 24)) as publisher:
        yield publisher


# Against what real engines sent.


@pytest.mark.parametrize("run", ["run-a-prefix-cache", "run-b-offload-tiers"])
def test_the_recorded_replay_of_an_engine_is_read_whole(captures, run):
    """Late to the stream, we get every batch the engine still had, in order."""
    replay = recorded_frames(captures / "vllm" / run / "replay_from_0.jsonl")
    live = recorded_frames(captures / "vllm" / run / "kv_events.jsonl")

    with RecordedPublisher(lambda _: replay) as engine, subscribed(engine) as subscriber:
        items = receive_count(subscriber, len(live))

    assert items == [Message(number, frames[-1]) for number, frames in enumerate(live)]


def test_the_recorded_live_messages_of_an_engine_are_read_whole(captures):
    """Listening from the start, we need no replay."""
    live = recorded_frames(captures / "vllm" / "run-a-prefix-cache" / "kv_events.jsonl")

    with RecordedPublisher(lambda _: [[b"", b"", END, b""]]) as engine, subscribed(engine) as subscriber:
        engine.await_subscriber()
        for frames in live:
            engine.send(frames)
        items = receive_count(subscriber, len(live))

    assert items == [Message(number, frames[-1]) for number, frames in enumerate(live)]


def test_a_recorded_gap_is_closed_by_the_recorded_replay(captures):
    """Batches 99 to 117 of the live path are lost; the engine's own answer from 100 brings them back.

    The answer to a question that begins at the anchor, 98, is the recorded one from 0.
    """
    folder = captures / "vllm" / "run-a-prefix-cache"
    live = recorded_frames(folder / "kv_events.jsonl")
    replays = {100: recorded_frames(folder / "replay_from_100.jsonl")}
    whole = recorded_frames(folder / "replay_from_0.jsonl")
    nothing = recorded_frames(folder / "replay_from_999999.jsonl")

    def answer(start):
        return replays.get(start, whole) if start else nothing

    with RecordedPublisher(answer) as engine, subscribed(engine) as subscriber:
        engine.await_subscriber()
        for frames in [*live[:99], live[118]]:
            engine.send(frames)
        items = receive_count(subscriber, 119)

    assert items == [Message(number, frames[-1]) for number, frames in enumerate(live)]


def test_replay_answers_of_old_releases_without_a_topic_are_read():
    """They are one frame shorter; the payload is last, the sequence second last."""
    messages = [(number, b"batch %d" % number) for number in range(4)]

    with (
        RecordedPublisher(lambda start: answers_from(messages, start, with_topic=False)) as engine,
        subscribed(engine) as subscriber,
    ):
        items = receive_count(subscriber, 4)

    assert items == [Message(*message) for message in messages]


def test_garbage_frames_are_counted_and_named_and_the_rest_goes_on(caplog):
    """Too few frames, a short sequence, an end marker where none belongs: none of them stops the stream."""
    messages = [(0, b"zero"), (1, b"one")]

    with (
        RecordedPublisher(lambda start: [[b"", b"odd"], *answers_from(messages, start)]) as engine,
        subscribed(engine, source="engine a") as subscriber,
    ):
        engine.await_subscriber()
        for frames in ([b"one frame"], [b"", b"abc", b"three-byte sequence"], [b"", END, b"end"]):
            engine.send(frames)
        items = receive_count(subscriber, 2)
        receive_until(subscriber, lambda _: subscriber.counters.undecodable >= 4)

    assert items == [Message(*message) for message in messages]
    assert subscriber.counters.undecodable >= 4
    assert "engine a" in caplog.text
    assert "frames, at least 3 are needed" in caplog.text or "3 bytes, not 8" in caplog.text


# Our publisher and subscriber together.


def test_messages_arrive_in_order(publisher):
    """The ordinary case: all of them, once, as published."""
    with subscribed(publisher) as subscriber:
        for message in numbered(50):
            assert publisher.publish(message.payload) == message.sequence

        assert receive_count(subscriber, 50) == numbered(50)


def test_a_late_subscriber_gets_the_past_and_the_present(publisher):
    """Replay first, then live, without a seam."""
    for message in numbered(20):
        publisher.publish(message.payload)

    with subscribed(publisher) as subscriber:
        receive_count(subscriber, 20)
        publisher.publish(b"payload 20")

        assert receive_count(subscriber, 1) == numbered(1, start=20)


def test_a_replay_of_thousands_drops_nothing(publisher):
    """Queues are shorter than the replay; the publisher waits instead of dropping."""
    for message in numbered(30_000):
        publisher.publish(message.payload)

    with subscribed(publisher, replay_queue_messages=50) as subscriber:
        items = receive_count(subscriber, 30_000)

    assert items == numbered(30_000)
    assert subscriber.counters.failed_replays == 0


def test_a_replay_of_thousands_from_an_engine_that_may_drop_is_read_whole():
    """Engines before 0.33 drop answers beyond their queue; we read fast enough or ask again."""
    messages = [(number, bytes(2000)) for number in range(5_000)]

    with (
        RecordedPublisher(lambda start: answers_from(messages, start)) as engine,
        subscribed(engine, replay_timeout_seconds=0.5) as subscriber,
    ):
        items = receive_count(subscriber, 5_000)

    assert items == [Message(*message) for message in messages]


def test_what_overran_the_ring_is_a_gap_of_exactly_that_range():
    """A small ring keeps the newest; a late subscriber is told what is gone."""
    with closing(StreamPublisher(ANY, ANY, buffer_bytes=2_000)) as publisher:
        for _ in range(100):
            publisher.publish(bytes(200))
        with subscribed(publisher) as subscriber:
            items = receive_until(subscriber, lambda items: items and items[-1] == Message(99, bytes(200)))

    gap, *messages = items
    assert gap == Gap(0, messages[0].sequence - 1)
    assert [message.sequence for message in messages] == list(range(messages[0].sequence, 100))
    assert subscriber.counters.missing == gap.messages


def test_a_slow_consumer_loses_nothing_and_holds_little(publisher):
    """Its short queues overflow while it sleeps; replays bring back what was dropped."""
    options = {"live_queue_messages": 10, "replay_queue_messages": 10, "buffer_bytes": 5_000}

    with subscribed(publisher, **options) as subscriber:
        receive_until(subscriber, lambda _: subscriber.counters.replays > 0)
        for message in numbered(8_000):
            publisher.publish(message.payload)
        items = receive_count(subscriber, 8_000)

    assert items == numbered(8_000)


def test_a_publisher_restarted_on_the_same_port_begins_a_new_life():
    """Restart, then everything the new one published, although its first messages went unheard."""
    first = StreamPublisher(ANY, ANY, buffer_bytes=1 << 20)
    with subscribed(first) as subscriber:
        for _ in range(3):
            first.publish(b"old")
        receive_count(subscriber, 3)
        first.close()
        with closing(StreamPublisher(first.endpoint, first.replay_endpoint, buffer_bytes=1 << 20)) as second:
            for message in numbered(5):
                second.publish(message.payload)
            items = receive_count(subscriber, 6)

    assert items == [Restart(), *numbered(5)]
    assert subscriber.counters.restarts == 1
    assert (subscriber.counters.first_sequence, subscriber.counters.last_sequence) == (0, 4)


def test_a_publisher_that_starts_later_is_read_from_its_beginning():
    """Nobody listens at first; the connection is made when somebody does."""
    endpoint, replay_endpoint = unused_endpoint(), unused_endpoint()
    with closing(
        StreamSubscriber(endpoint, replay_endpoint, source="late", replay_timeout_seconds=0.2)
    ) as subscriber:
        nothing = receive_until(subscriber, lambda _: subscriber.counters.failed_replays > 0)
        with closing(StreamPublisher(endpoint, replay_endpoint, buffer_bytes=1 << 20)) as publisher:
            for message in numbered(3):
                publisher.publish(message.payload)
            items = receive_count(subscriber, 3)

    assert nothing == []
    assert items == numbered(3)


def test_the_last_message_before_a_pause_is_not_lost():
    """No later message announces it: a quiet stream is asked whether something was missed."""
    messages = [(0, b"zero"), (1, b"one")]

    with (
        RecordedPublisher(lambda start: answers_from(messages[:1], start)) as engine,
        subscribed(engine) as subscriber,
    ):
        receive_until(subscriber, lambda _: subscriber.counters.replays >= 2)
        engine.answer = lambda start: answers_from(messages, start)
        items = receive_until(subscriber, bool)

    assert items == [Message(1, b"one")]


def test_many_publishing_threads_share_one_sequence(publisher):
    """Publishing is safe from any thread: no sequence twice, none left out."""
    with subscribed(publisher) as subscriber:
        threads = [
            threading.Thread(target=lambda: [publisher.publish(b"x") for _ in range(200)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        items = receive_count(subscriber, 800)
        for thread in threads:
            thread.join()

    assert [item.sequence for item in items] == list(range(800))


def test_one_thread_can_wait_for_many_streams(publisher):
    """`wait` returns when any of them has something."""
    with (
        closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 20)) as other,
        subscribed(publisher) as first,
        subscribed(other) as second,
    ):
        publisher.publish(b"first")
        other.publish(b"second")
        items = {first: [], second: []}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(items.values()) and time.monotonic() < deadline:
            wait(items, timeout_seconds=1.0)
            for subscriber in items:
                items[subscriber] += subscriber.receive(0)

    assert items == {first: [Message(0, b"first")], second: [Message(0, b"second")]}


def test_streams_can_share_a_context():
    """A lent context is left open; ours alone is closed."""
    with zmq.Context() as context:
        with closing(
            StreamPublisher("inproc://live", "inproc://replay", buffer_bytes=1 << 20, context=context)
        ) as publisher:
            publisher.publish(b"zero")
            with subscribed(publisher, context=context) as subscriber:
                items = receive_count(subscriber, 1)

        assert items == [Message(0, b"zero")]
        assert not context.closed


def test_closing_leaves_no_thread_and_frees_the_addresses():
    """Both ends, in any order, also twice."""
    before = threading.active_count()
    publisher = StreamPublisher(ANY, ANY, buffer_bytes=1 << 20)
    subscriber = StreamSubscriber(publisher.endpoint, publisher.replay_endpoint, source="test")
    publisher.publish(b"zero")

    for end in (publisher, subscriber, publisher, subscriber):
        end.close()

    assert threading.active_count() == before
    StreamPublisher(publisher.endpoint, publisher.replay_endpoint, buffer_bytes=1).close()


def test_publishing_on_a_closed_stream_is_refused():
    """It would be lost in silence otherwise."""
    publisher = StreamPublisher(ANY, ANY, buffer_bytes=1 << 20)
    publisher.close()

    with pytest.raises(TierscopeError, match="closed stream"):
        publisher.publish(b"late")


def test_an_address_in_use_is_named(publisher):
    """What, where and how to fix it."""
    with pytest.raises(BadSettings) as caught:
        StreamPublisher(publisher.endpoint, ANY, buffer_bytes=1)

    assert publisher.endpoint in str(caught.value)
    assert "in use" in str(caught.value)


@pytest.mark.parametrize("endpoint", ["nonsense", "tcp://", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_named(endpoint):
    """The source it was given for is named too."""
    with pytest.raises(BadSettings, match="engine a cannot be read from"):
        StreamSubscriber(endpoint, None, source="engine a")


def test_a_malformed_replay_request_is_ignored(publisher, caplog):
    """One peer's nonsense does not end the replay of the others."""
    publisher.publish(b"zero")
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.connect(publisher.replay_endpoint)
        dealer.send_multipart([b"", b"abc"])
        dealer.send_multipart([b"nonsense"])
        dealer.send_multipart([b"", pack_sequence(0)])
        answer = dealer.recv_multipart() if dealer.poll(10_000) else None

    assert answer == [b"", b"", pack_sequence(0), b"zero"]
    assert "3 bytes, not 8" in caplog.text


def test_a_subscriber_knows_whether_anybody_is_there():
    """Not before a publisher came, while it is there, and no longer after it left."""
    publisher = StreamPublisher(ANY, ANY, buffer_bytes=1 << 20)
    with subscribed(publisher) as subscriber:
        assert not subscriber.connected
        receive_until(subscriber, lambda _: subscriber.connected)
        assert subscriber.connected

        publisher.close()
        receive_until(subscriber, lambda _: not subscriber.connected)
        assert not subscriber.connected
