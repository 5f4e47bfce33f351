"""The three tiers of a KV cache, and where a prompt token can come from."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """One level of the cache, nearest to the GPU first."""

    L0 = "l0"
    """vLLM's prefix cache in GPU memory."""
    L1 = "l1"
    """LMCache in host memory."""
    L2 = "l2"
    """The NVMe pool shared through Curvine."""


class Origin(StrEnum):
    """Where a prompt token's KV values came from; the five values partition every prompt."""

    L0 = "l0"
    L1 = "l1"
    L2 = "l2"
    EXTERNAL = "external"
    """Loaded through a KV connector from a tier that nothing told us."""
    COMPUTED = "computed"
