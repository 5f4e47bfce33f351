"""The figures of a recommendation that boards draw: curves at multiples of today's sizes, costs, routing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tierscope.registry import advice_metrics as metrics
from tierscope.registry.types import Sample

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of a tier's present size."""
POINTS = ("current", "recommended")
ROUTED = ("best", "predicted", "delivered")

Endpoint = tuple[str, str]


def advice_figures(endpoint: Endpoint, document: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield the samples of a recommendation's curves, costs and routing; what it leaves out has none."""
    for tier, curve in document.get("curves", {}).items():
        for point in POINTS:
            if (found := curve[point]) is not None:
                labels = (*endpoint, tier, point)
                yield Sample(metrics.ADVISED_CAPACITY_BYTES, labels, found["capacity_bytes"])
                yield Sample(metrics.ADVISED_HIT_RATIO, labels, found["hit_ratio"])
        yield from _ghosts(endpoint, tier, curve)
    yield from _costs(endpoint, document)
    routed = document.get("routed_hits") or {}
    for point in ROUTED:
        if (ratio := routed.get(f"{point}_ratio")) is not None:
            yield Sample(metrics.ROUTED_HIT_RATIO, (*endpoint, point), ratio)


def _costs(endpoint: Endpoint, document: Mapping[str, Any]) -> Iterator[Sample]:
    current = document.get("current") or {}
    changes = document.get("changes") or ()
    # A change's figures are those with all before it in force: the last one's are of the whole advice.
    then = changes[-1]["predicted"] if changes else {}
    for point, found in zip(POINTS, (current, then), strict=True):
        if (cost := found.get("cost_per_hour")) is not None:
            yield Sample(metrics.ADVISED_COST, (*endpoint, point, current["currency"]), cost["value"])


def _ghosts(endpoint: Endpoint, tier: str, curve: Mapping[str, Any]) -> Iterator[Sample]:
    if curve["current"] is None:
        return
    for scale in SCALES:
        size = scale * curve["current"]["capacity_bytes"]
        ratio = _ratio_at(size, curve["capacity_bytes"], curve["hit_ratio"])
        if ratio is not None:
            yield Sample(metrics.GHOST_HIT_RATIO, (*endpoint, tier, f"{scale:g}"), ratio)


def _ratio_at(size: float, sizes: Sequence[float], ratios: Sequence[float]) -> float | None:
    """Hit ratio at the largest measured size that is not above `size`; None where all are.

    The largest of all holds everything that was asked for, so what is larger serves the same.
    """
    column = bisect_right(sizes, size) - 1
    return ratios[column] if column >= 0 else None
