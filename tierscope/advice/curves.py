"""Hit ratio by size, as the document has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One size and the hit ratio expected there."""

    capacity_bytes: float
    hit_ratio: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Hit ratio of a tier and those above it for each size of one holder; other tiers as advised."""

    capacity_bytes: tuple[float, ...]
    hit_ratio: tuple[float, ...]
    current: Point | None
    recommended: Point | None
