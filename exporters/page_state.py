"""How far /metrics has counted each stream, so that a restart of the exporter counts nothing twice.

An exporter that starts reads again what its streams still hold: it needs that to understand what follows, and
the store takes it once (see docs/decisions). The page must not count it a second time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from tierscope.domain.identity import SourceId

log = logging.getLogger(__name__)

MOST_STREAMS = 1000
"""Streams whose places are kept, those that spoke last: a pod that was found once may be found again."""


@dataclass(frozen=True, slots=True)
class Position:
    """The last message of a stream that was counted, and the latest time that any until then told.

    The time is the publisher's own. A later life of the publisher numbers from 0 again, but later. What was
    `waiting` is not counted yet.
    """

    sequence: int
    at_unix_seconds: float
    waiting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Told:
    """What a message told and may have to wait for another stream: its name, and the time of the message."""

    name: str
    at_unix_seconds: float


class _Place(msgspec.Struct, array_like=True):
    """A position, as the file has it."""

    sequence: int
    at_unix_seconds: float
    waiting: list[str] = []


class _Saved(msgspec.Struct):
    """The file: the exporter it is of, and where its streams were."""

    exporter: str
    streams: dict[str, _Place]
    version: int = 1


_decode = msgspec.json.Decoder(_Saved).decode


class PageState:
    """Positions of one exporter's page in a file, written whenever the page was read. None: no file is kept.

    With a file that does not exist yet nobody has counted anything. One that cannot be read says nothing: it
    is told, and taken as none until it is written. Used by one thread at a time.
    """

    def __init__(self, file: str | None, exporter: str) -> None:
        self._file = None if file is None else Path(file)
        self._exporter = exporter
        self._kept: dict[str, _Place] | None = None
        self._failed = False
        self.is_known = False
        """Whether it is known what an earlier run has counted."""
        if self._file is not None:
            self._load(self._file)

    def position(self, source: SourceId) -> Position | None:
        """How far an earlier run had counted a stream; None where it had counted nothing of it."""
        found = (self._kept or {}).get(str(source))
        if found is None:
            return None
        return Position(found.sequence, found.at_unix_seconds, frozenset(found.waiting))

    def keep(self, positions: Mapping[SourceId, Position]) -> None:
        """Write down what the page that is about to be handed out has counted."""
        if self._file is None:
            return
        streams = dict(self._kept or {})
        streams |= {
            str(source): _Place(at.sequence, at.at_unix_seconds, sorted(at.waiting))
            for source, at in positions.items()
        }
        if len(streams) > MOST_STREAMS:
            latest = sorted(streams, key=lambda name: -streams[name].at_unix_seconds)
            streams = {name: streams[name] for name in latest[:MOST_STREAMS]}
        if streams == self._kept and not self._failed:
            return
        beside = self._file.with_name(f"{self._file.name}.new")
        try:
            beside.write_bytes(msgspec.json.encode(_Saved(self._exporter, streams)))
            beside.replace(self._file)
        except OSError as error:
            if not self._failed:
                log.warning(
                    "%s: what /metrics has counted cannot be written down, a restart may count it again: %s",
                    self._file,
                    error.strerror or error,
                )
            self._failed = True
            return
        self._kept, self._failed = streams, False

    def _load(self, file: Path) -> None:
        try:
            saved = _decode(file.read_bytes())
        except FileNotFoundError:
            self.is_known = True
            return
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            log.warning("%s: what /metrics has counted before is not known: %s", file, error)
            return
        if saved.exporter != self._exporter or saved.version != 1:
            log.warning(
                "%s: is of exporter %r, this is %r: give each a page_state_file of its own",
                file,
                saved.exporter[:80],
                self._exporter,
            )
            return
        self._kept, self.is_known = saved.streams, True


@dataclass(slots=True)
class Counted:
    """Tells what of one stream is for the feed alone, because it was before the page's time.

    Where it `is_known` what an earlier run counted, that is what lies at or before `earlier`, but for what
    waited there. Else it is what the publisher had said before `began_unix_seconds` and nobody was there to
    hear (`before`): someone may have counted it. The clocks are then those of one node.
    """

    earlier: Position | None = None
    is_known: bool = True
    began_unix_seconds: float = 0.0
    met_another_life: bool = field(default=False, init=False, compare=False)
    """Whether the publisher restarted while nobody read it: numbers of the earlier run came again, later."""
    _read_until: Position | None = None
    _waited: set[str] = field(default_factory=set)
    """What waited in the earlier run, and has not come again."""
    _past_until: float = float("-inf")
    _latest: float = 0.0
    _begun: bool = False

    def __post_init__(self) -> None:
        self._read_until = self.earlier
        if self.earlier is not None:
            self._waited = set(self.earlier.waiting)
            self._past_until = self._latest = self.earlier.at_unix_seconds

    @property
    def begun(self) -> bool:
        """Whether a message of the page's time has come."""
        return self._begun

    def begin(self) -> None:
        """The publisher began anew under our eyes: whatever it says from now on counts."""
        self._begun = True

    def take(self, sequence: int, at_unix_seconds: float | None, *, before: bool) -> bool:
        """Take a message by its number and its latest time; whether the page counts it."""
        at = self._latest if at_unix_seconds is None else at_unix_seconds
        self._latest = max(self._latest, at)
        if not self._begun:
            self._begun = not self._is_past(sequence, at, before=before)
            known = self.earlier
            self.met_another_life = self._begun and known is not None and sequence <= known.sequence
            if not self._begun:
                self._past_until = max(self._past_until, at)
        if self._begun or self.earlier is None:  # else who ends before it has caught up has counted no less
            self._read_until = Position(sequence, self._latest)
        return self._begun

    def lost_before(self, first: int, last: int) -> int:
        """How many of the messages that are lost, of these numbers, are of a time before the page's."""
        if self._begun:
            return 0
        if not self.is_known:
            return last - first + 1
        return 0 if self.earlier is None else max(0, min(last, self.earlier.sequence) - first + 1)

    def counts(self, told: Told) -> bool:
        """Whether the page counts what had to wait, or what a message of a time before it told."""
        if told.name in self._waited:
            self._waited.discard(told.name)
            return True
        return told.at_unix_seconds > self._past_until

    def position(self, waiting: Collection[Told]) -> Position | None:
        """How far the page counts, while these wait."""
        if self._read_until is None:
            return None
        open_still = {
            told.name
            for told in waiting
            if told.at_unix_seconds > self._past_until or told.name in self._waited
        }
        if not self._begun:
            open_still |= self._waited
        return replace(self._read_until, waiting=frozenset(open_still))

    def _is_past(self, sequence: int, at: float, *, before: bool) -> bool:
        if not self.is_known:
            return before and at < self.began_unix_seconds
        known = self.earlier
        return known is not None and sequence <= known.sequence and at <= known.at_unix_seconds
