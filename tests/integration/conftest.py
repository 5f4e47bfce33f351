"""What many tests of running parts begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing

import pytest

from tierscope.feed.stream_publisher import StreamPublisher

ANY = "tcp://127.0.0.1:*"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What a test started, ended in the opposite order."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def publisher(opened) -> StreamPublisher:
    """A stream that nobody has published on yet."""
    return opened.enter_context(closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 26)))


@pytest.fixture
def publish(opened) -> Callable[[Iterable[bytes]], tuple[str, str]]:
    """Return a function that publishes payloads on a stream of its own; it returns both its addresses."""

    def publish_all(payloads: Iterable[bytes]) -> tuple[str, str]:
        stream = opened.enter_context(closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 26)))
        for payload in payloads:
            stream.publish(payload)
        return stream.endpoint, stream.replay_endpoint

    return publish_all
