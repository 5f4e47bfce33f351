"""The KV-event stream of one engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporters.oddities import Finding, Oddity
from exporters.page_state import Told
from exporters.streams import StreamReading
from exporters.vllm.events import decode_events
from exporters.vllm.residency import Residency
from tierscope.domain.errors import BadInput


@dataclass(slots=True)
class EventStream:
    """Reads KV events into block events. `rank` is the engine's as its settings have it."""

    residency: Residency
    rank: int
    where: str
    waiting: tuple[Told, ...] = ()
    _begun: bool = False

    def message(self, payload: bytes, sequence: int) -> StreamReading:
        """Read one batch; raises `BadInput`."""
        batch = decode_events(payload, where=self.where)
        reading = StreamReading(at_unix_seconds=batch.at_unix_seconds)
        if not self._begun and sequence == 0:
            # Of an earlier life of the engine we know nothing, but whoever read us before may.
            reading.entries += self.residency.began(batch.at_unix_seconds)
        self._begun = True
        events, oddities = self.residency.apply(batch, sequence)
        reading.entries += events
        reading.oddities += (*batch.oddities, *oddities)
        if batch.rank is not None and batch.rank != self.rank:
            reading.oddities.append(self._other_rank(batch.rank))
        return reading

    def lost(self) -> None:
        """Batches were lost for good: what the engine holds is unknown."""
        self.residency.lost()

    def restart(self, at_unix_seconds: float) -> StreamReading:
        """The engine began anew, with an empty cache."""
        self._begun = True
        return StreamReading([*self.residency.restart(at_unix_seconds)])

    def settle(self, monotonic_seconds: float) -> StreamReading:  # noqa: ARG002  nothing here waits
        """Nothing waits for another stream."""
        return StreamReading()

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong with what the engine says of its blocks."""
        return [*self.residency.findings()]

    @property
    def stale(self) -> bool:
        """Whether what the engine holds is unknown."""
        return self.residency.stale

    def _other_rank(self, rank: int) -> Oddity:
        error = BadInput(
            f"the events are of rank {rank}, the settings say rank {self.rank}",
            where=self.where,
            fix="correct `rank` or `events_endpoint`; vLLM adds the rank to the configured port",
        )
        return Oddity("events of another rank", error)
