"""What travels from an exporter to a collector in one step, and where in the stream it stands."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.events import LedgerEntry


@dataclass(frozen=True, slots=True, order=True)
class FeedPosition:
    """A place in one exporter's feed. A new `incarnation` starts its own sequence at 0."""

    exporter: str
    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """Ledger entries published together."""

    position: FeedPosition
    at_unix_seconds: float
    entries: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True)
class FeedGap:
    """Batches of one incarnation that were published and can no longer be had; both ends included."""

    exporter: str
    incarnation: int
    first_sequence: int
    last_sequence: int

    @property
    def batches(self) -> int:
        """How many batches are lost."""
        return self.last_sequence - self.first_sequence + 1
