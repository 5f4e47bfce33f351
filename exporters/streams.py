"""Sources that speak on their own: one thread waits for all their streams."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from exporters.health import Health, Units
from exporters.oddities import Finding, Oddity
from exporters.page_state import Counted, Told
from exporters.pages import Desk, fault
from tierscope.domain.errors import BadInput, SourceUnreadable
from tierscope.domain.events import LedgerEntry
from tierscope.domain.requests import LateMove, RequestRecord
from tierscope.domain.worker import Worker
from tierscope.feed.messages import Gap, Message, Restart, StreamItem
from tierscope.feed.stream_subscriber import StreamSubscriber, wait

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.2
"""Longest wait for the streams, and so for a stop."""

ROUND_SECONDS = 0.2
"""From one look at all streams to the next at the least: what comes meanwhile is read and handed on together.

A look for each message takes a third more of a core, and their collector a seventh (docs/measurements.md).
"""

PATIENCE_SECONDS = 5.0
"""How long a stream may have no publisher before it is said to be down."""


@dataclass(slots=True)
class StreamReading:
    """What one message or restart led to; `missing` records were lost before they were published.

    A message may hold many `records`. `at_unix_seconds` is the latest time that the message tells, None where
    it tells none. `told` names each of the entries, where such entries may have to wait. `late` belongs to
    records told before, for their traces.
    """

    entries: list[LedgerEntry] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    missing: int = 0
    records: int = 1
    at_unix_seconds: float | None = None
    told: Sequence[Told] = ()
    late: Sequence[LateMove] = ()


class StreamMeaning(Protocol):
    """What the messages of one stream mean."""

    def message(self, payload: bytes, sequence: int) -> StreamReading:
        """Read one message and its number; raises `BadInput` when nothing of it can be read."""

    def lost(self) -> None:
        """Messages were lost for good."""

    def restart(self, at_unix_seconds: float) -> StreamReading:
        """The publisher began anew."""

    def settle(self, monotonic_seconds: float) -> StreamReading:
        """Tell what waited for another stream; asked several times a second, whether or not anything came."""

    @property
    def waiting(self) -> Sequence[Told]:
        """What waits for another stream."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong with the publisher as of what it said last."""

    @property
    def stale(self) -> bool:
        """Whether state derived from the stream is unknown."""


@dataclass(slots=True)
class MessagesWorth:
    """How many messages lost records would have filled, by how many there were in those that came.

    A stream is counted in messages: 10 records of a million must not look like 10 of 30,000 messages. Rounded
    up over all that was lost, so that no loss is hidden.
    """

    _records: int = 0
    _messages: int = 0
    _lost: int = 0
    _told: int = 0

    def of(self, lost: int, *, beside: int) -> int:
        """Take a message that came, with records `beside` those `lost`; return messages newly lost."""
        self._records += beside
        self._messages += 1
        self._lost += lost
        if not lost:
            return 0
        worth = -(-self._lost * self._messages // max(self._records, self._messages))
        new = max(0, worth - self._told)
        self._told += new
        return new


@dataclass(slots=True)
class Stream:
    """One stream: where it comes from, what it means, how it does, and what of it the page counts."""

    subscriber: StreamSubscriber
    meaning: StreamMeaning
    health: Health
    counted: Counted = field(default_factory=Counted)
    late: Sequence[LateMove] = ()
    """What the last look found for records told before."""
    _undecodable: int = 0
    """Frames that the subscriber could not read, as of the last look."""
    _seen_at: float | None = None
    _worth: MessagesWorth = field(default_factory=MessagesWorth)

    def drain(self, desk: Desk) -> list[LedgerEntry]:
        """Take what has arrived, hand it on, and return what of it is of the page's time."""
        items = self.subscriber.receive(0)
        past: list[LedgerEntry] = []
        entries: list[LedgerEntry] = []
        oddities: list[Oddity] = []
        for item in items:
            reading = self._read(item, desk)
            self._part(reading, past, entries)
            oddities += reading.oddities
        self._look_at_frames()
        self._look_at_link(desk)
        settled = self.meaning.settle(desk.monotonic())
        self._part(settled, past, entries, waited=True)
        self.late = settled.late
        oddities += settled.oddities
        # What is wrong may come from another stream, too: two servers that disagree.
        desk.oddities.hold(self.health.source, self.meaning.findings)
        if past:
            desk.post(self.health.source, past, (), on_page=False)
        if items or entries or oddities:
            self.health.mark_stale(self.meaning.stale)
            position = self.counted.position(self.meaning.waiting)
            desk.post(self.health.source, entries, oddities, read_until=position)
        return entries

    def finish(self, desk: Desk) -> list[LedgerEntry]:
        """Nothing will come of it any more: hand on what waited, without what it waited for."""
        past: list[LedgerEntry] = []
        entries: list[LedgerEntry] = []
        self.late = ()  # what the last look found was handed on with it
        if self.meaning.waiting:
            settled = self.meaning.settle(math.inf)
            self.late = settled.late
            self._part(settled, past, entries, waited=True)
            if past:
                desk.post(self.health.source, past, (), on_page=False)
            position = self.counted.position(self.meaning.waiting)
            desk.post(self.health.source, entries, settled.oddities, read_until=position)
        return entries

    def _part(
        self,
        reading: StreamReading,
        past: list[LedgerEntry],
        entries: list[LedgerEntry],
        *,
        waited: bool = False,
    ) -> None:
        """Put what is of the page's time apart from what is not; `waited`: messages before told it."""
        if (self.counted.begun and not waited) or not reading.told:
            (entries if self.counted.begun else past).extend(reading.entries)
            return
        for entry, told in zip(reading.entries, reading.told, strict=True):
            (entries if self.counted.counts(told) else past).append(entry)

    def _read(self, item: StreamItem, desk: Desk) -> StreamReading:
        match item:
            case Message():
                return self._read_message(item, desk)
            case Gap():
                self._lose(item)
                self.meaning.lost()
                return StreamReading()
            case Restart():
                self.counted.begin()
                self.health.restarted(desk.clock())
                return self.meaning.restart(desk.clock())

    def _lose(self, gap: Gap) -> None:
        past = self.counted.lost_before(gap.first, gap.last)
        if past:
            self.health.take(Units(missing=past), sequence=gap.first + past - 1, on_page=False)
        if past < gap.messages:
            self.health.take(Units(missing=gap.messages - past), sequence=gap.last)

    def _read_message(self, message: Message, desk: Desk) -> StreamReading:
        sequence, units = message.sequence, Units(undecodable=1)
        try:
            reading = self.meaning.message(message.payload, sequence)
            units = Units(received=1)
        except BadInput as error:
            reading = StreamReading(oddities=[Oddity("undecodable message", error)])
        except Exception as error:  # a fault of ours in one message must not end the stream
            log.exception("%s: reading message %d failed", self.health.source, sequence)
            reading = StreamReading(oddities=[Oddity("fault of ours", fault(error, self.health.source))])
        met_before = self.counted.met_another_life
        on_page = self.counted.take(sequence, reading.at_unix_seconds, before=message.before)
        if self.counted.met_another_life and not met_before:
            self.health.restarted(desk.clock())
        self.health.take(units, sequence=sequence, on_page=on_page)
        missing = self._worth.of(reading.missing, beside=reading.records) if units.received else 0
        if missing:
            self.health.take(Units(missing=missing), on_page=on_page)
        return reading

    def _look_at_frames(self) -> None:
        undecodable = self.subscriber.undecodable
        if undecodable > self._undecodable:
            self.health.take(Units(undecodable=undecodable - self._undecodable))
            self._undecodable = undecodable

    def _look_at_link(self, desk: Desk) -> None:
        now = desk.monotonic()
        if self.subscriber.connected:
            self._seen_at = now
            self.health.succeeded()
        elif self._seen_at is None:
            self._seen_at = now  # from here on it has time to connect
        elif now - self._seen_at >= PATIENCE_SECONDS:
            self.health.failed(_nobody(self.health))


class StreamReader(Worker):
    """Reads all streams on one thread until it is stopped: what they know of one another needs no locks.

    `on_record` is called with every request record after it was handed on, `on_late` with what is told of one
    afterwards; neither may wait.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        desk: Desk,
        *,
        on_record: Callable[[RequestRecord], None],
        on_late: Callable[[LateMove], None],
    ) -> None:
        super().__init__("streams")
        self._streams = list(streams)
        self._changes: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]] = queue.SimpleQueue()
        self._desk = desk
        self._on_record = on_record
        self._on_late = on_late

    def add(self, streams: Sequence[Stream]) -> None:
        """Read these too, from now on."""
        self._change(lambda: self._streams.extend(streams))

    def remove(self, streams: Sequence[Stream]) -> None:
        """Take these out; when this returns nobody reads them, and their opener may close them."""

        def take_out() -> None:
            self._streams = [one for one in self._streams if not any(one is gone for gone in streams)]

        self._change(take_out)

    def finish(self, streams: Sequence[Stream]) -> None:
        """Tell what waits in these, which were taken out and are over for good."""

        def tell() -> None:
            for stream in streams:
                self._hand_on(stream, stream.finish)

        self._change(tell)

    def _change(self, change: Callable[[], None]) -> None:
        """Do something between two rounds of the thread, and wait for it; at once while it does not run."""
        done = threading.Event()
        if self.alive:
            self._changes.put((change, done))
            while self.alive:
                if done.wait(WAIT_SECONDS):
                    return
        if not done.is_set():
            change()

    def _take_changes(self) -> None:
        while not self._changes.empty():
            change, done = self._changes.get()
            change()
            done.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._take_changes()
            if self._streams:
                wait([stream.subscriber for stream in self._streams], WAIT_SECONDS)
            else:  # a poller without sockets would not wait, and a node without engines has none
                self._stopping.wait(WAIT_SECONDS)
            began = time.monotonic()
            for stream in self._streams:
                self._drain(stream)
            self._stopping.wait(max(0.0, began + ROUND_SECONDS - time.monotonic()))

    def _drain(self, stream: Stream) -> None:
        self._hand_on(stream, stream.drain)

    def _hand_on(self, stream: Stream, look: Callable[[Desk], list[LedgerEntry]]) -> None:
        try:
            for entry in look(self._desk):
                if isinstance(entry, RequestRecord):
                    self._on_record(entry)
            for move in stream.late:
                self._on_late(move)
        except Exception as error:  # a fault of ours in one stream must not end the others
            log.exception("%s: reading it failed", stream.health.source)
            stream.health.failed(fault(error, stream.health.source))


def _nobody(health: Health) -> SourceUnreadable:
    return SourceUnreadable(
        "nobody publishes this stream",
        where=str(health.source),
        fix="check its address and that the engine publishes on it; it is joined when it comes",
    )
