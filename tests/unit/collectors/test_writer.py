"""The writer commits everything once, whatever the store says in between."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from collectors.buffer import Buffer
from collectors.complaints import Complaints
from collectors.writer import StoreWriter
from tests.exporting import await_true
from tests.ledgers import batch
from tierscope.domain.errors import StoreUnusable
from tierscope.registry import metrics
from tierscope.storage.ingest import Appended


class FlakyStore:
    """Keeps what is appended, after refusing as often as told."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.appends: list[list[object]] = []
        self.tried = threading.Event()

    def append(self, items):
        self.tried.set()
        if self.refusals:
            self.refusals -= 1
            raise StoreUnusable("the disk is full", where="store", fix="free some space")
        self.appends.append(list(items))
        return Appended(rows=Counter(requests=len(items)), refused=1, first_refusal="one of them")

    @property
    def stored(self) -> list[object]:
        return [item for append in self.appends for item in append]


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    """Retries follow at once."""
    monkeypatch.setattr("collectors.writer.FIRST_RETRY_SECONDS", 0.001)


def running(store, *, flush_rows=3, most_rows=1000):
    buffer = Buffer(most_rows, lambda: 0.0)
    writer = StoreWriter(store, buffer, Complaints(lambda: 0.0), flush_rows=flush_rows, flush_seconds=1e6)
    writer.start()
    return buffer, writer


def test_a_flush_is_one_append():
    """Items wait for a flush of enough rows; the rest is written at the end."""
    store = FlakyStore()
    buffer, writer = running(store)
    buffer.put([batch(0), batch(1)])
    buffer.put([batch(2)])
    await_true(lambda: store.appends, "the flush came")
    buffer.put([batch(3)])
    writer.stop()
    writer.join()

    assert store.appends == [[batch(0), batch(1), batch(2)], [batch(3)]]


def test_a_store_that_refuses_is_given_the_same_again(caplog):
    """Nothing is dropped and nothing is reordered; the trouble is said once, and its end."""
    caplog.set_level("INFO", logger="collectors")
    store = FlakyStore(refusals=5)
    buffer, writer = running(store)
    buffer.put([batch(0), batch(1), batch(2)])
    await_true(lambda: store.appends, "the store took it")
    writer.stop()
    writer.join()

    assert store.stored == [batch(0), batch(1), batch(2)]
    assert [one.value for one in writer.samples() if one.metric is metrics.STORE_REFUSALS] == [5]
    about_store = [r.getMessage() for r in caplog.records if r.getMessage().startswith("store:")]
    assert ["disk is full" in message for message in about_store] == [True, False]


def test_while_the_store_refuses_the_buffer_fills_and_feeds_wait():
    """Back-pressure, not growth."""
    store = FlakyStore(refusals=10**9)
    buffer, writer = running(store, most_rows=6)
    buffer.put([batch(0), batch(1), batch(2)])
    assert store.tried.wait(30)
    buffer.put([batch(n) for n in range(3, 9)])
    waiting = threading.Thread(target=buffer.put, args=([batch(9)],))
    waiting.start()

    waiting.join(0.05)
    assert waiting.is_alive()

    store.refusals = 0
    waiting.join()
    writer.stop()
    writer.join()
    assert store.stored == [batch(n) for n in range(10)]


def test_a_store_that_still_refuses_at_the_end_does_not_hold_it_up():
    """What cannot be written at the end is left to the exporters' replay."""
    store = FlakyStore(refusals=10**9)
    buffer, writer = running(store)
    buffer.put([batch(0), batch(1), batch(2)])
    assert store.tried.wait(30)
    buffer.put([batch(3)])
    writer.stop()
    writer.join()

    assert not writer.alive
    assert store.stored == []


def test_after_a_batch_that_is_left_to_the_replay_nothing_else_is_stored():
    """Its feed would stand behind a hole, and its exporter never be asked for it."""

    class OneRefused(FlakyStore):
        def append(self, items):
            self.refusals = int(batch(0) in items)
            return super().append(items)

    store = OneRefused()
    buffer, writer = running(store)
    buffer.put([batch(0), batch(1), batch(2)])
    assert store.tried.wait(30)
    buffer.put([batch(3), batch(4), batch(5)])
    writer.stop()
    writer.join()

    assert store.stored == []


def test_rows_and_refusals_are_counted(caplog):
    """What was written is counted by table; what fits no table is counted, and one of it is named."""
    store = FlakyStore()
    buffer, writer = running(store)
    buffer.put([batch(0), batch(1), batch(2)])
    await_true(lambda: store.appends, "the flush came")
    buffer.put([batch(3), batch(4), batch(5)])
    writer.stop()
    writer.join()

    found = {(sample.metric, sample.labels): sample.value for sample in writer.samples()}
    assert found == {
        (metrics.COMMIT_WAIT_SECONDS, ()): 0,
        (metrics.STORE_REFUSALS, ()): 0,
        (metrics.STORED_ROWS, ("requests",)): 6,
        (metrics.UNKNOWN_INPUT, ("store", "unstorable_entry")): 2,
    }
    assert sum("one of them" in record.getMessage() for record in caplog.records) == 1
