"""The stream's sockets, read by the reader of vLLM's own events."""

from __future__ import annotations

import threading

import pytest
import zmq

from tierscope.feed.messages import Gap, Message
from tierscope.feed.stream_subscriber import StreamSubscriber
from tierscope_probe.stream import Stream

ANY = "tcp://127.0.0.1:0"


class Serving:
    """A stream with a thread that serves it, as the sender's does."""

    def __init__(self, ring_bytes: int = 1_000_000, payloads: list[bytes] | None = None) -> None:
        self.stream = Stream(ANY, ANY, ring_bytes=ring_bytes)
        for payload in payloads or []:
            self.stream.publish(payload)
        self.stream.open()
        self._more: list[bytes] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def publish(self, payload: bytes) -> None:
        self._more.append(payload)

    def _serve(self) -> None:
        while not self._stop.is_set():
            self.stream.serve(5)
            while self._more:
                self.stream.publish(self._more.pop(0))

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.stream.close(0)


@pytest.fixture
def read():
    """Return a function that reads so many items of a stream."""
    readers = []

    def start(stream: Stream, count: int) -> list[object]:
        reader = StreamSubscriber(stream.endpoint, stream.replay_endpoint, source="test")
        readers.append(reader)
        items: list[object] = []
        while len(items) < count:
            news = reader.receive(20)
            assert news, f"only {len(items)} of {count} came"
            items += news
        return items

    yield start
    for reader in readers:
        reader.close()


def test_a_late_reader_gets_the_past_and_the_present(read):
    """What was published before anything was bound is replayed; what comes after is live."""
    with Serving(payloads=[b"0", b"1"]) as serving:
        serving.publish(b"2")

        items = read(serving.stream, 3)

    assert items == [Message(number, b"%d" % number) for number in range(3)]


def test_a_long_past_arrives_whole(read):
    """More answers than a reader's queue takes at once are held back, not dropped."""
    payloads = [number.to_bytes(4, "big") for number in range(30_000)]
    with Serving(payloads=payloads) as serving:
        items = read(serving.stream, len(payloads))

    assert [item.payload for item in items] == payloads


def test_what_left_the_ring_is_a_gap(read):
    """The reader is told what it can never have."""
    with Serving(ring_bytes=20, payloads=[b"%010d" % number for number in range(5)]) as serving:
        items = read(serving.stream, 3)

    assert items == [Gap(0, 2), Message(3, b"0000000003"), Message(4, b"0000000004")]


def test_nonsense_is_no_question(read):
    """A message that asks nothing is ignored, and the next reader is served."""
    with (
        Serving(payloads=[b"0"]) as serving,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as stranger,
    ):
        stranger.connect(serving.stream.replay_endpoint)
        stranger.send_multipart([b"", b"what?"])

        assert read(serving.stream, 1) == [Message(0, b"0")]


def test_two_addresses_are_bound_or_none():
    """When the second is taken, the first is free again for whoever comes next."""
    taken = Stream(ANY, ANY, ring_bytes=10)
    taken.open()
    half = Stream("tcp://127.0.0.1:*", taken.replay_endpoint, ring_bytes=10)

    with pytest.raises(zmq.ZMQError):
        half.open()

    assert not half.is_open
    taken.close(0)
    half.open()
    half.close(0)
