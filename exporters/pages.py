"""Sources that are asked: one thread each, so that one that hangs delays nobody else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from exporters.fetch import Fetcher
from exporters.health import Health, Units
from exporters.ledger import Ledger
from exporters.oddities import Finding, Oddities, Oddity
from exporters.page_state import Position
from tierscope.domain.errors import SourceUnreadable, TierscopeError
from tierscope.domain.events import LedgerEntry
from tierscope.domain.identity import SourceId
from tierscope.domain.worker import Worker
from tierscope.registry.types import Sample

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PageReading:
    """What one poll of a source gave."""

    entries: list[LedgerEntry] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    units: Units = field(default_factory=lambda: Units(received=1))
    restarted: bool = False


class PageSource(Protocol):
    """A source that is asked for its present state."""

    @property
    def source(self) -> SourceId:
        """Which source it is."""

    @property
    def units(self) -> int:
        """How many units a poll that fails leaves missing."""

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask once; raises `SourceUnreadable`."""


@runtime_checkable
class ShowingSource(Protocol):
    """A source with series of its own, beside those of the ledger."""

    def samples(self) -> Iterator[Sample]:
        """Yield them as of now; asked by other threads than the one that reads."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where every reader brings what it read, and the clocks it reads by."""

    ledger: Ledger
    oddities: Oddities
    clock: Callable[[], float]
    monotonic: Callable[[], float]

    def post(
        self,
        source: SourceId,
        entries: Sequence[LedgerEntry],
        oddities: Sequence[Oddity],
        *,
        on_page: bool = True,
        read_until: Position | None = None,
    ) -> None:
        """Hand on entries and oddities; a batch that cannot be published is told and not counted."""
        self.oddities.note(source, oddities)
        try:
            self.ledger.post(source, entries, on_page=on_page, read_until=read_until)
        except TierscopeError as error:
            lost = Oddity("entries that could not be published", error, len(entries))
            self.oddities.note(source, [lost])


class PagePoller(Worker):
    """Polls one source, at once and then again and again, until it is stopped."""

    def __init__(
        self, page: PageSource, health: Health, desk: Desk, *, poll_seconds: float, timeout_seconds: float
    ) -> None:
        # One answer may take as long. Who waits for several ends by itself later, and hands nothing on.
        super().__init__(f"poll {page.source}", patience_seconds=timeout_seconds + 1)
        self._page = page
        self._health = health
        self._desk = desk
        self._poll_seconds = poll_seconds
        self._timeout_seconds = timeout_seconds

    def _run(self) -> None:
        fetcher = Fetcher(self._timeout_seconds, monotonic=self._desk.monotonic)
        while not self._stopping.is_set():
            started = self._desk.monotonic()
            self._poll(fetcher, started)
            self._stopping.wait(max(0.0, self._poll_seconds - (self._desk.monotonic() - started)))
        fetcher.close()

    def _poll(self, fetcher: Fetcher, started: float) -> None:
        source = self._page.source
        try:
            reading = self._page.read(fetcher, self._desk.clock())
        except SourceUnreadable as error:
            self._failed(error, started)
        except Exception as error:  # a fault of ours in one reading must not silence the source for good
            log.exception("%s: reading it failed", source)
            self._failed(fault(error, source), started)
        else:
            if self._stopping.is_set():
                return
            if reading.restarted:
                self._health.restarted(self._desk.clock())
            self._health.take(reading.units)
            self._desk.oddities.hold(source, reading.findings)
            self._desk.post(source, reading.entries, reading.oddities)
            self._health.succeeded(self._desk.monotonic() - started)

    def _failed(self, error: TierscopeError, started: float) -> None:
        if self._stopping.is_set():
            return
        self._desk.ledger.forget_readings(self._page.source)
        self._health.take(Units(missing=self._page.units))
        self._health.failed(error, self._desk.monotonic() - started)


def fault(error: Exception, source: SourceId) -> SourceUnreadable:
    """The error for a fault of our own that a source brought out."""
    return SourceUnreadable(
        f"reading it failed: {type(error).__name__}: {error}",
        where=str(source),
        fix="report this; it is tried again",
    )
