"""Subscribers over real sockets, and receiving until enough has come."""

from __future__ import annotations

import time
from contextlib import closing

from tierscope.feed.stream_subscriber import Message, StreamSubscriber

PATIENCE_SECONDS = 120.0


def subscribed(publisher, **options):
    """A subscriber to a publisher, to be closed."""
    options.setdefault("source", "test stream")
    return closing(StreamSubscriber(publisher.endpoint, publisher.replay_endpoint, **options))


def receive_until(subscriber, enough, seconds=PATIENCE_SECONDS):
    """Receive until `enough(items)` or time is up; return all items."""
    items = []
    deadline = time.monotonic() + seconds
    while not enough(items) and time.monotonic() < deadline:
        items += subscriber.receive(0.1)
    return items


def receive_count(subscriber, count):
    """Receive exactly so many."""
    items = receive_until(subscriber, lambda items: len(items) >= count)
    assert len(items) == count, items
    return items


def numbered(count, start=0):
    """Messages with their number as payload."""
    return [Message(sequence, b"payload %d" % sequence) for sequence in range(start, start + count)]
