"""The one thread that reads all streams: those it begins with, and those that come and go."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from exporters.streams import ROUND_SECONDS, StreamReader
from tests.exporting import await_true


class Counting:
    """A stream that counts how often it was drained, and by whom."""

    def __init__(self) -> None:
        self.subscriber = SimpleNamespace()
        self.late = ()
        self.drained = 0
        self.threads: set[int] = set()

    def drain(self, _desk) -> list:
        self.drained += 1
        self.threads.add(threading.get_ident())
        return []


@pytest.fixture
def polls(monkeypatch):
    """How many streams each poll waited for."""
    seen: list[int] = []

    def wait(subscribers, _seconds) -> None:
        seen.append(len(list(subscribers)))
        time.sleep(0.001)

    monkeypatch.setattr("exporters.streams.wait", wait)
    return seen


@pytest.fixture
def reader():
    reader = StreamReader((), None, on_record=lambda record: None, on_late=lambda move: None)
    yield reader
    reader.stop()
    if reader._thread.ident is not None:
        reader.join()


def test_without_streams_nobody_polls(reader, polls):
    """A poll of no sockets returns at once: a node without engines would cost a core."""
    reader.start()
    reader.add([])  # the thread has been round once when this returns
    reader.add([])

    assert polls == []


def test_streams_come_and_go_while_it_reads(reader, polls):
    """All of them are read by one thread; one that was taken out is not touched again."""
    first, second = Counting(), Counting()
    reader.add([first])
    reader.start()
    await_true(lambda: first.drained, "the first is read")
    reader.add([second])
    await_true(lambda: second.drained, "the second is read, too")
    reader.remove([first])
    drained = first.drained
    seen = second.drained
    await_true(lambda: second.drained > seen + 3, "the second is read on")

    assert first.drained == drained
    assert first.threads == second.threads
    assert set(polls) <= {1, 2}


def test_rounds_are_apart(polls):
    """However often there is something to read: what many engines say within a moment is read together."""
    reader, stream = (
        StreamReader((), None, on_record=lambda record: None, on_late=lambda move: None),
        Counting(),
    )
    reader.add([stream])
    began = time.monotonic()
    reader.start()
    await_true(lambda: stream.drained >= 4, "it is read again and again", patience_seconds=20)
    reader.stop()
    reader.join()

    assert time.monotonic() - began >= 3 * ROUND_SECONDS
    assert stream.drained <= 1 + (time.monotonic() - began) / ROUND_SECONDS


def test_a_change_before_the_start_or_after_the_end_is_made_at_once(polls):
    """Nobody waits for a thread that does not run."""
    reader, stream = (
        StreamReader((), None, on_record=lambda record: None, on_late=lambda move: None),
        Counting(),
    )
    reader.add([stream])
    reader.start()
    await_true(lambda: stream.drained, "it is read")
    reader.stop()
    reader.join()
    reader.remove([stream])

    assert reader._streams == []
