"""The testbed's streams, read by the subscriber that reads real engines."""

from __future__ import annotations

import time

import pytest
import zmq

from tierscope.feed.stream_subscriber import Gap, Message, Restart, StreamSubscriber
from tierscope.testbed.wire.stream import Stream


@pytest.fixture
def context():
    with zmq.Context() as context:
        yield context


def read_until(stream, subscriber, last, seconds=20.0):
    """Serve and receive until a message with this payload came; return all items."""
    items = []
    deadline = time.monotonic() + seconds
    while not (items and isinstance(items[-1], Message) and items[-1].payload == last):
        assert time.monotonic() < deadline, items
        stream.serve_replay()
        items += subscriber.receive(0.01)
    return items


def test_what_the_testbed_loses_is_found_and_said_exactly(context):
    """Losses on the live path, in the ring, beyond the ring, and a restart, in one run."""
    stream = Stream(context, topic=b"kv@pod-0@m", ring_batches=100)
    subscriber = StreamSubscriber(stream.endpoint, stream.replay_endpoint, source="testbed", context=context)

    for number in range(50):
        stream.publish(b"a %d" % number, live=number % 7 != 3)
    items = read_until(stream, subscriber, b"a 49")
    stream.publish(b"neither sent nor kept", live=False, keep=False)
    stream.publish(b"a 51")
    items += read_until(stream, subscriber, b"a 51")
    for number in range(52, 252):
        stream.publish(b"a %d" % number, live=False)
    stream.publish(b"a 252")
    items += read_until(stream, subscriber, b"a 252")
    stream.restart()
    for number in range(5):
        stream.publish(b"b %d" % number, live=number > 2)
    items += read_until(stream, subscriber, b"b 4")

    subscriber.close()
    stream.close()
    assert items == [
        *(Message(number, b"a %d" % number) for number in range(50)),
        Gap(50, 50),
        Message(51, b"a 51"),
        Gap(52, 152),
        *(Message(number, b"a %d" % number) for number in range(153, 253)),
        Restart(),
        *(Message(number, b"b %d" % number) for number in range(5)),
    ]
