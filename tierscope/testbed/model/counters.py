"""What an engine counts about itself between two restarts, in vLLM's sense of each name."""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass, field

TTFT_EDGES_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
"""vLLM's own edges."""

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass(slots=True)
class EngineCounters:
    """Tokens unless the name says otherwise.

    Lookups and hits are counted when a request is first admitted, prompts when its first token is
    out; a request aborted in between is in the former alone.
    """

    queried: int = 0
    hit_l0: int = 0
    external_queried: int = 0
    hit_l1: int = 0
    hit_l2: int = 0
    prompt: int = 0
    local_compute: int = 0
    local_hit: int = 0
    external_transfer: int = 0
    generated: int = 0
    preemptions: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    """Answered requests by reason; a client that went away is in none."""
    ttft_counts: list[int] = field(default_factory=lambda: [0] * (len(TTFT_EDGES_SECONDS) + 1))
    ttft_seconds: float = 0.0

    def observe_ttft(self, seconds: float) -> None:
        """Put one time to first token into its bucket (not cumulative; the last one is +Inf)."""
        self.ttft_counts[bisect.bisect_left(TTFT_EDGES_SECONDS, seconds)] += 1
        self.ttft_seconds += seconds
