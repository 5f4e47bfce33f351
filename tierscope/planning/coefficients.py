"""What an admission, a new block and a block event cost, as `tierscope bench --only costs` measures it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs in one place (a process, a wire, a file): seconds of a core, or bytes."""

    an_admission: float
    a_new_block: float
    """Of an admission's block chain: a block that no earlier request of the engine asked for."""
    a_block_event: float
    """One block stored in, or evicted from, one tier."""

    def of(self, admissions: float, new_blocks: float, block_events: float) -> float:
        """Of so many of each: in total, or a second if these are rates."""
        return (
            admissions * self.an_admission + new_blocks * self.a_new_block + block_events * self.a_block_event
        )


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Measured costs. The defaults are of two crowded cores, so on the safe side: docs/measurements.md."""

    exporter_seconds: Cost = Cost(27e-6, 0.27e-6, 3.5e-6)
    """Of a core, from an engine's bytes to the feed."""
    collector_seconds: Cost = Cost(36e-6, 0.37e-6, 3.5e-6)
    """Of a core, from the feed to committed rows."""
    feed_bytes: Cost = Cost(116.0, 8.0, 27.0)
    stored_bytes: Cost = Cost(330.0, 8.0, 23.0)
