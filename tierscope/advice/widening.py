"""What outcomes of earlier advice add to the intervals of a document."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HitRatioWidening:
    """What is added to both sides of the intervals of each tier's share and of their sum."""

    l0: float
    l1: float
    l2: float
    total: float


@dataclass(frozen=True, slots=True)
class OutcomeSummary:
    """How earlier changes of this endpoint came out, and what that adds to intervals."""

    compared: int
    """Changes, advised or not, whose outcome was measured."""
    missed: int
    """Those whose hit ratio or TTFT came outside its interval."""
    hit_ratio: HitRatioWidening
    ttft_ratio: float
    """Intervals of TTFT are wider by this factor less one, on both sides."""
