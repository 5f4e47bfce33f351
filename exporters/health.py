"""What became of each source: is it up, how much of its stream arrived, and since when.

A source is counted in its own units: polls of a page, messages of a stream, operations of LMCache's
controller, workers of a pool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from exporters.oddities import Repeats
from tierscope.domain.errors import TierscopeError
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceId
from tierscope.registry import metrics
from tierscope.registry.types import Sample


@dataclass(slots=True)
class Units:
    """How many units of a source came, are lost, and could not be read."""

    received: int = 0
    missing: int = 0
    undecodable: int = 0

    def add(self, other: Units) -> None:
        """Count another lot."""
        self.received += other.received
        self.missing += other.missing
        self.undecodable += other.undecodable

    @property
    def due(self) -> int:
        """All units there should have been."""
        return self.received + self.missing + self.undecodable


@dataclass(slots=True)
class _Interval:
    """What happened since the last coverage was told."""

    since_unix_seconds: float
    units: Units = field(default_factory=Units)
    restarts: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Voice:
    """How a person is told; both take a message and its arguments, like a logger's methods."""

    warn: Callable[..., None]
    inform: Callable[..., None]


class Health:
    """How one source does. Written by its reader, read by scrapes and by whoever tells coverage.

    `fresh_seconds` is how long one success speaks for the source: a reader that hangs makes it go down
    too. Being down is told once, then once a minute; being back is told once.
    """

    def __init__(
        self,
        source: SourceId,
        *,
        fresh_seconds: float,
        since_unix_seconds: float,
        monotonic: Callable[[], float],
        voice: Voice,
    ) -> None:
        self.source = source
        self._fresh_seconds = fresh_seconds
        self._monotonic = monotonic
        self._voice = voice
        self._lock = threading.Lock()
        self._total = Units()
        self._restarts = 0
        self._interval = _Interval(since_unix_seconds)
        self._ended: list[SourceCoverage] = []
        self._read_seconds: float | None = None
        self._succeeded_at: float | None = None
        self._said_down = False
        self._repeats = Repeats(monotonic)

    def succeeded(self, read_seconds: float | None = None) -> None:
        """The source answered; `read_seconds` is how long a reading took."""
        with self._lock:
            self._read_seconds = read_seconds
            self._succeeded_at = self._monotonic()
            said_down, self._said_down = self._said_down, False
        if said_down:
            self._repeats.forget(self.source)
            self._voice.inform("%s: is back", self.source)

    def failed(self, error: TierscopeError, read_seconds: float | None = None) -> None:
        """The source gave nothing this time."""
        with self._lock:
            self._read_seconds = read_seconds
            self._succeeded_at = None
            self._said_down = True
        if self._repeats.due(self.source):
            self._voice.warn("%s: %s", self.source, error.one_line())

    def take(self, units: Units, *, sequence: int | None = None, on_page: bool = True) -> None:
        """Count units; `sequence` is the last one's number in the source's stream.

        Those of a time before the page's are told as coverage, and not `on_page`.
        """
        with self._lock:
            if on_page:
                self._total.add(units)
            interval = self._interval
            interval.units.add(units)
            if sequence is not None:
                interval.last_sequence = sequence
                if interval.first_sequence is None:
                    interval.first_sequence = sequence - units.due + 1

    def restarted(self, at_unix_seconds: float) -> None:
        """The source began anew: the interval so far belongs to its old life."""
        with self._lock:
            self._end_interval(at_unix_seconds)
            self._restarts += 1
            self._interval.restarts = 1

    def mark_stale(self, stale: bool) -> None:
        """Say whether state derived from the source is unknown."""
        with self._lock:
            self._interval.stale = stale

    def coverage(self, at_unix_seconds: float) -> list[SourceCoverage]:
        """Return what happened since this was last asked, one entry for each life; empty when nothing did."""
        with self._lock:
            self._end_interval(at_unix_seconds)
            ended, self._ended = self._ended, []
            return ended

    def samples(self) -> Iterator[Sample]:
        """Yield the source's own series."""
        with self._lock:
            total, restarts, read_seconds = Units(), self._restarts, self._read_seconds
            total.add(self._total)
            succeeded_at = self._succeeded_at
        up = succeeded_at is not None and self._monotonic() - succeeded_at <= self._fresh_seconds
        name = str(self.source)
        yield Sample(metrics.SOURCE_UP, (name,), int(up))
        if read_seconds is not None:
            yield Sample(metrics.SOURCE_READ_SECONDS, (name,), read_seconds)
        for result in ("received", "missing", "undecodable"):
            yield Sample(metrics.SOURCE_MESSAGES, (name, result), getattr(total, result))
        yield Sample(metrics.SOURCE_RESTARTS, (name,), restarts)
        if total.due:
            yield Sample(metrics.COMPLETENESS, (name,), total.received / total.due)

    def _end_interval(self, at_unix_seconds: float) -> None:
        interval = self._interval
        self._interval = _Interval(at_unix_seconds, stale=interval.stale)
        if not (interval.units.due or interval.restarts):
            self._interval.since_unix_seconds = interval.since_unix_seconds
            return
        self._ended.append(
            SourceCoverage(
                source=self.source,
                incarnation=self._restarts,
                since_unix_seconds=interval.since_unix_seconds,
                at_unix_seconds=at_unix_seconds,
                received=interval.units.received,
                missing=interval.units.missing,
                undecodable=interval.units.undecodable,
                restarts=interval.restarts,
                first_sequence=interval.first_sequence,
                last_sequence=interval.last_sequence,
                stale=interval.stale,
            )
        )
