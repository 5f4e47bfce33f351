"""What a replayable stream hands on: messages in order, and what is known to be missing between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceId


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the stream; within an incarnation of its publisher sequences count up from 0.

    `before` says that it was published before its reader had come: the first replay brought it.
    """

    sequence: int
    payload: bytes
    before: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that were published and can no longer be had; both ends included."""

    first: int
    last: int

    @property
    def messages(self) -> int:
        """How many messages are lost."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Restart:
    """The publisher began anew at sequence 0; what follows belongs to its new life.

    State derived from the old life is void. What the old life published after the last message received
    from it is unknown: nobody is left who could say how much that was.
    """


StreamItem = Message | Gap | Restart


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """What became of a stream since its subscriber began. Counts only grow, whatever the publisher does.

    `missing` messages were announced by their sequence and are lost for good. `undecodable` frames could
    not be read as a message; when a replay brings the message after all it counts as received too.
    `strays` are readable messages that their publisher does not know of. `first_sequence` and
    `last_sequence` are of the publisher's present life, None before its first message.
    """

    received: int = 0
    missing: int = 0
    undecodable: int = 0
    restarts: int = 0
    duplicates: int = 0
    strays: int = 0
    replays: int = 0
    failed_replays: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None

    def coverage_since(
        self,
        earlier: StreamCounters,
        source: SourceId,
        *,
        incarnation: int,
        since_unix_seconds: float,
        at_unix_seconds: float,
        stale: bool = False,
    ) -> SourceCoverage:
        """Return what was covered between `earlier` counters of the same subscriber and these.

        The range begins after the last message of `earlier`, or at the first one of a life begun since.
        """
        received = self.received - earlier.received
        first = self.first_sequence
        if earlier.last_sequence is not None and earlier.restarts == self.restarts:
            first = earlier.last_sequence + 1
        return SourceCoverage(
            source,
            incarnation,
            since_unix_seconds,
            at_unix_seconds,
            received=received,
            missing=self.missing - earlier.missing,
            undecodable=self.undecodable - earlier.undecodable,
            restarts=self.restarts - earlier.restarts,
            first_sequence=first if received else None,
            last_sequence=self.last_sequence if received else None,
            stale=stale,
        )
