"""The stream's own duties: numbers, a bounded ring, and replay for whoever asks properly."""

from __future__ import annotations

import pytest
import zmq

from tierscope.testbed.wire.stream import Stream

PATIENCE_MILLISECONDS = 120_000
END = b"\xff" * 8


@pytest.fixture
def stream():
    with zmq.Context() as context:
        found = Stream(context, topic=b"topic", ring_batches=3)
        yield found
        found.close()


@pytest.fixture
def dealer(stream):
    with zmq.Context() as context, context.socket(zmq.DEALER) as found:
        found.linger = 0
        found.connect(stream.replay_endpoint)
        yield found


def answers(stream, dealer, *request):
    """What comes back for a request, up to the end marker."""
    dealer.send_multipart(request)
    assert stream.router.poll(PATIENCE_MILLISECONDS)
    stream.serve_replay()
    found = []
    while dealer.poll(PATIENCE_MILLISECONDS):
        found.append(dealer.recv_multipart())
        if found[-1][-2] == END:
            return found
    raise AssertionError("no end marker")


def test_only_the_last_batches_can_be_replayed(stream, dealer):
    """The ring forgets its oldest batches, and their numbers tell."""
    for number in range(5):
        stream.publish(b"batch %d" % number)

    replay = answers(stream, dealer, b"", bytes(8))

    assert [(int.from_bytes(frames[2], "big"), frames[3]) for frames in replay[:-1]] == [
        (number, b"batch %d" % number) for number in (2, 3, 4)
    ]


def test_a_request_that_is_none_is_ignored_and_harms_nobody(stream, dealer):
    """A malformed request gets no answer; the next proper one does."""
    stream.publish(b"batch")
    dealer.send_multipart((b"", b"now!"))

    replay = answers(stream, dealer, b"", bytes(8))

    assert [frames[-1] for frames in replay] == [b"batch", b""]


def test_after_a_restart_numbers_begin_at_zero_and_the_ring_is_empty(stream, dealer):
    """A restarted publisher knows nothing of before."""
    stream.publish(b"before")
    stream.restart()
    stream.publish(b"after")

    replay = answers(stream, dealer, b"", bytes(8))

    assert [frames[2:] for frames in replay[:-1]] == [[bytes(8), b"after"]]
    assert stream.batches == 1
