"""Who is asked for a past that was missed: is not there, is busy, or never answers."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from tests.ports import unused_endpoint
from tests.recorded_publisher import RecordedPublisher, answers_from
from tests.streaming import (
    receive_count,
    receive_until,
)
from tierscope.feed.frames import pack_sequence
from tierscope.feed.stream_subscriber import Gap, Message, StreamSubscriber


def test_an_unreachable_replay_address_ends_in_a_gap():
    """After a bounded time the hole is reported and the stream goes on."""
    options = {"source": "no replay", "replay_timeout_seconds": 0.2}

    with (
        RecordedPublisher(lambda _: []) as engine,
        closing(StreamSubscriber(engine.endpoint, unused_endpoint(), **options)) as subscriber,
    ):
        engine.await_subscriber()
        engine.send([b"", pack_sequence(7), b"seven"])
        items = receive_count(subscriber, 2)

    assert items == [Gap(0, 6), Message(7, b"seven")]
    assert subscriber.counters.failed_replays > 0


def test_a_publisher_that_is_busy_with_others_is_waited_for():
    """It is there, but its first answer takes many times as long as one that is not there may."""
    messages = [(number, b"payload") for number in range(8)]
    asked = threading.Event()

    def answer(start):
        asked.set()
        time.sleep(1.0)  # what makes it busy: no condition to wait for
        return answers_from(messages, start)

    with (
        RecordedPublisher(answer) as engine,
        closing(
            StreamSubscriber(
                engine.endpoint, engine.replay_endpoint, source="busy", replay_timeout_seconds=0.2
            )
        ) as subscriber,
    ):
        engine.await_subscriber()
        receive_until(subscriber, lambda _: asked.is_set())
        engine.send([b"", pack_sequence(7), b"payload"])
        items = receive_count(subscriber, 8)

    assert items == [Message(*message) for message in messages]
    assert (subscriber.counters.missing, subscriber.counters.failed_replays) == (0, 0)


def test_a_publisher_that_is_there_and_never_answers_is_given_up():
    """Nothing is held back for ever."""
    options = {"source": "never", "replay_timeout_seconds": 0.02}

    with (
        RecordedPublisher(lambda _: []) as engine,
        closing(StreamSubscriber(engine.endpoint, engine.replay_endpoint, **options)) as subscriber,
    ):
        engine.await_subscriber()
        engine.send([b"", pack_sequence(7), b"seven"])
        items = receive_count(subscriber, 2)

    assert items == [Gap(0, 6), Message(7, b"seven")]


def test_without_a_replay_address_a_gap_is_reported_at_once():
    """There is nobody to ask."""
    with (
        RecordedPublisher(lambda _: []) as engine,
        closing(StreamSubscriber(engine.endpoint, None, source="no replay")) as subscriber,
    ):
        engine.await_subscriber()
        engine.send([b"", pack_sequence(7), b"seven"])
        items = receive_count(subscriber, 2)

    assert items == [Gap(0, 6), Message(7, b"seven")]
