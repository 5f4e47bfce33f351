"""What a change is expected to bring: values with the ends of their intervals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HitRatios:
    """Predicted shares of prompt tokens by the tier that serves them; `total` is their sum."""

    l0: Estimate
    l1: Estimate
    l2: Estimate
    total: Estimate


@dataclass(frozen=True, slots=True)
class Unwidened:
    """The same shares and times with intervals that hold nothing of what earlier outcomes taught."""

    hit_ratio: HitRatios
    ttft_p50_seconds: Estimate | None
    ttft_p90_seconds: Estimate | None
    ttft_mean_seconds: Estimate | None


@dataclass(frozen=True, slots=True)
class Predicted:
    """What is expected once this change and those before it in the list are in force and warm."""

    hit_ratio: HitRatios
    ttft_p50_seconds: Estimate | None
    ttft_p90_seconds: Estimate | None
    cost_per_hour: Estimate | None
    """In the currency of `current`: null until prices are configured."""
    ttft_mean_seconds: Estimate | None = None
    before_outcomes: Unwidened | None = None
    """What would be said without what came of earlier changes; null where outcomes add nothing to that."""
