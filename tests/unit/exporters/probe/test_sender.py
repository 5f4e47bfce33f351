"""The sender: bounded, patient with sockets, and never in the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.fake_engine import chain
from tierscope.feed.messages import Message
from tierscope.feed.stream_publisher import StreamPublisher
from tierscope.feed.stream_subscriber import StreamSubscriber
from tierscope_probe import sender as sender_module
from tierscope_probe.errors import ErrorCount
from tierscope_probe.sender import Sender
from tierscope_probe.settings import ProbeSettings

ANY = "tcp://127.0.0.1:0"


def record(**fields: object) -> tuple:
    """A draft whose record has these fields."""
    return (lambda: {"t": "test", **fields}), ()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds, or fail."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Desk:
    """A sender whose records are read back."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.errors = ErrorCount()
        self._file = folder / "addresses-{form}-{rank}.json"
        self.settings = ProbeSettings(
            **{"endpoint": ANY, "replay_endpoint": ANY, "address_file": str(self._file), **settings}
        )
        self.sender = Sender(
            self.settings, form="test", rank=0, stats=lambda: {"t": "stats"}, errors=self.errors
        )
        self._reader: StreamSubscriber | None = None

    def addresses(self) -> dict[str, str]:
        path = Path(str(self._file).format(form="test", rank=0))
        eventually(path.exists)
        return json.loads(path.read_text())

    def read(self, count: int) -> list[dict]:
        """Read so many records other than statistics, from the beginning."""
        if self._reader is None:
            where = self.addresses()
            self._reader = StreamSubscriber(where["endpoint"], where["replay_endpoint"], source="test")
        records: list[dict] = []
        deadline = time.monotonic() + 20
        while len(records) < count:
            items = self._reader.receive(deadline - time.monotonic())
            assert time.monotonic() < deadline, f"only {records} came"
            batches = [msgspec.msgpack.decode(item.payload) for item in items if isinstance(item, Message)]
            records += [each for batch in batches for each in batch if each["t"] != "stats"]
        return records

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self.sender.close(20)


@pytest.fixture
def desk(tmp_path):
    """Return a maker of desks that are closed in the end."""
    desks: list[Desk] = []

    def make(**settings: object) -> Desk:
        desks.append(Desk(tmp_path, **settings))
        return desks[-1]

    yield make
    for each in desks:
        each.close()


def test_records_arrive_in_order_after_the_greeting(desk):
    """The stream opens with who is speaking; the order of the scheduler's calls is kept."""
    here = desk()
    here.sender.introduce({"t": "hello"})
    for number in range(100):
        here.sender.offer(record(number=number))

    here.sender.start()

    first, *rest = here.read(101)
    assert first == {"t": "hello"}
    assert [each["number"] for each in rest] == list(range(100))


def test_a_full_queue_drops_and_counts(desk):
    """The scheduler never waits for a sender that cannot keep up."""
    here = desk(queue_records=3)
    for number in range(5):
        here.sender.offer(record(number=number))
    here.sender.start()

    assert [each["number"] for each in here.read(3)] == [0, 1, 2]
    assert here.sender.dropped == 2


def test_hashes_travel_as_deltas(desk):
    """The second chain names what it shares with the first and adds the rest."""
    here = desk()
    here.sender.offer(record(hashes=chain("a", 2)))
    here.sender.offer(record(hashes=chain("a", 3)))
    here.sender.start()

    first, second = (each["hashes"] for each in here.read(2))
    assert second == {"from": 2, "anchor": first[1], "new": [chain("a", 3)[2][-8:]]}


def test_an_epoch_ends_before_the_ring_loses_its_beginning(desk):
    """Chains are whole again after a new greeting, so what the ring holds can always be resolved."""
    here = desk(ring_bytes=8_000)
    here.sender.introduce({"t": "hello"})
    last = 32 * 12 - 1
    for number in range(last + 1):
        here.sender.offer(record(number=number, hashes=chain("a", 4)))
    here.sender.start()
    eventually(lambda: here.sender.sent > last)

    records: list[dict] = []
    while last not in [each.get("number") for each in records]:
        records += here.read(1)

    kinds = [each["t"] for each in records]
    assert len(records) < last
    assert "hello" in kinds
    after_greetings = [each for before, each in pairwise(records) if before["t"] == "hello"]
    assert all(isinstance(each["hashes"], list) for each in after_greetings)


def test_an_address_that_is_taken_is_tried_again(desk, monkeypatch):
    """Binding fails, is counted, and succeeds once the address is free; nothing before is lost."""
    monkeypatch.setattr(sender_module, "REBIND_SECONDS", 0.05)
    taken = StreamPublisher(ANY, ANY, buffer_bytes=10)
    here = desk(endpoint=taken.endpoint, replay_endpoint=taken.replay_endpoint)
    here.sender.offer(record(number=1))
    here.sender.start()
    eventually(lambda: here.errors.count > 0)

    taken.close()

    assert here.read(1) == [{"t": "test", "number": 1}]


def test_a_record_that_cannot_be_made_costs_its_batch_alone(desk):
    """It is counted as dropped; the stream goes on, with whole chains."""
    here = desk()
    here.sender.offer(record(hashes=chain("a", 2)))
    here.sender.offer(record(hashes=["not a hash"]))
    here.sender.start()
    eventually(lambda: here.sender.dropped >= 2)

    here.sender.offer(record(hashes=chain("a", 2)))

    assert here.errors.count == 1
    assert isinstance(here.read(1)[0]["hashes"], list)


def test_closing_sends_what_waits(desk):
    """A reader that is there gets the last records of an engine that shuts down in order."""
    here = desk()
    here.sender.start()
    here.sender.offer(record(number=1))
    assert here.read(1)[0]["number"] == 1

    here.sender.offer(record(number=2))
    here.sender.close(20)

    assert here.read(1)[0]["number"] == 2


def test_a_quiet_stream_shows_that_it_lives(desk, monkeypatch):
    """Statistics come as a heartbeat even if nothing happens."""
    monkeypatch.setattr(sender_module, "STATS_SECONDS", 0.0)
    monkeypatch.setattr(sender_module, "HEARTBEAT_SECONDS", 0.01)
    here = desk()
    here.sender.start()
    where = here.addresses()
    reader = StreamSubscriber(where["endpoint"], where["replay_endpoint"], source="test")
    received: list[object] = []
    while len(received) < 3:
        received += reader.receive(20)
    reader.close()

    assert {batch["t"] for item in received for batch in msgspec.msgpack.decode(item.payload)} == {"stats"}
