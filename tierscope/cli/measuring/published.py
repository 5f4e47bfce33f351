"""The published figures that a measurement is set beside; none of them was measured by us.

From the post of 2026-08-12 on vLLM 0.11.1 with LMCache's `fs` connector on a Curvine pool, Qwen2-7B-Instruct,
chunks of 256 tokens, two replicas, single shots without other traffic.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One row of the post's sweep on two A10G GPUs: one pod wrote, the other read."""

    prompt_tokens: int
    cold_seconds: float
    l2_seconds: float

    @property
    def speedup(self) -> float:
        """How many times faster than cold."""
        return self.cold_seconds / self.l2_seconds


SWEEP = (
    Published(534, 0.184, 0.187),
    Published(1080, 0.404, 0.239),
    Published(1563, 0.537, 0.248),
    Published(2022, 0.618, 0.261),
    Published(2608, 0.774, 0.287),
    Published(3142, 0.893, 0.403),
)

VERIFICATION = {
    "prompt_tokens": 1925,
    "hit_tokens": 1925,
    "cross_replica_hit_ratio": 1.0,
    "load_seconds": 0.05575,
    "load_bytes": 110_387_200,
    "load_bytes_per_second": 1.98e9,
}
"""Its one run on two L40S nodes; the bytes are 57,344 a token (28 layers, 4 KV heads of 128, bf16)."""


def nearest(prompt_tokens: int) -> Published | None:
    """The published row whose length is within a tenth, None where there is none."""
    row = min(SWEEP, key=lambda one: abs(one.prompt_tokens - prompt_tokens))
    return row if abs(row.prompt_tokens - prompt_tokens) <= prompt_tokens / 10 else None
