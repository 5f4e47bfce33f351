"""A histogram of an engine's page, whatever its buckets are, and whether it has two modes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

FEWEST = 50
"""Observations without which nothing is said of a shape."""

LEAST_SHARE = 0.15
"""Of all observations that each of two modes has to have."""

LEAST_DISTANCE = 3.0
"""Times by which the slow mode is above the fast one."""

VALLEY = 0.1
"""Of the lower mode's fullest bucket, the most that a bucket between two modes may hold."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Observations by bucket, not cumulative: (n,) rising upper edges, the last +Inf, and (n,) counts."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    @property
    def observations(self) -> float:
        """How many there are."""
        return sum(self.counts)

    @property
    def longest(self) -> float | None:
        """An edge that no observation is above; None where the last bucket has any, or nothing has."""
        filled = [edge for edge, count in zip(self.edges, self.counts, strict=True) if count > 0]
        return filled[-1] if filled and math.isfinite(filled[-1]) else None

    def modes(self) -> tuple[float, float] | None:
        """The middles of the two modes, None where there are not clearly two (or too few observations).

        The parting is Otsu's, over the logarithms of the buckets' middles.
        """
        if self.observations < FEWEST:
            return None
        places = [math.log(middle) for middle in _middles(self.edges)]
        cut = _otsu(places, self.counts)
        if cut is None:
            return None
        low, high = (_mean(places, self.counts, part) for part in (range(cut), range(cut, len(places))))
        shares = sum(self.counts[:cut]) / self.observations
        if min(shares, 1 - shares) < LEAST_SHARE or high - low < math.log(LEAST_DISTANCE):
            return None
        return (math.exp(low), math.exp(high)) if _parted(self.counts, cut) else None


def buckets_of(cumulative: Mapping[float, float], total: float, total_sum: float) -> Buckets | None:
    """Make buckets of cumulative counts by upper edge (none is NaN); None where counts fall, or are none."""
    by_edge = {**cumulative, math.inf: cumulative.get(math.inf, total)}
    edges = sorted(by_edge)
    counts = [by_edge[edge] - before for edge, before in zip(edges, _before(by_edge, edges), strict=True)]
    sound = all(0 <= count < math.inf for count in counts) and math.isfinite(total_sum)
    return Buckets(tuple(edges), tuple(counts), total_sum) if sound else None


def _before(by_edge: Mapping[float, float], edges: Sequence[float]) -> list[float]:
    return [0.0, *(by_edge[edge] for edge in edges[:-1])]


def _middles(edges: Sequence[float]) -> list[float]:
    """A value in the middle of each bucket, on a logarithmic scale; beyond the outer edges one step on."""
    finite = [max(edge, 1e-9) for edge in edges if math.isfinite(edge)] or [1.0]
    lower = [finite[0] / 2, *finite]
    upper = [*finite, finite[-1] * 2]
    return [math.sqrt(low * high) for low, high in zip(lower, upper, strict=True)]


def _otsu(places: Sequence[float], counts: Sequence[float]) -> int | None:
    """The index that parts the buckets into two classes farthest from each other; None where one is empty."""
    best, at = 0.0, None
    for cut in range(1, len(places)):
        left, right = sum(counts[:cut]), sum(counts[cut:])
        if left and right:
            apart = _mean(places, counts, range(cut, len(places))) - _mean(places, counts, range(cut))
            if left * right * apart**2 > best:
                best, at = left * right * apart**2, cut
    return at


def _mean(places: Sequence[float], counts: Sequence[float], part: Iterable[int]) -> float:
    part = list(part)
    return sum(places[i] * counts[i] for i in part) / sum(counts[i] for i in part)


def _parted(counts: Sequence[float], cut: int) -> bool:
    """Whether a nearly empty bucket lies between the fullest ones on both sides of the cut."""
    left = max(range(cut), key=lambda i: counts[i])
    right = max(range(cut, len(counts)), key=lambda i: counts[i])
    valley = min(counts[left + 1 : right], default=math.inf)
    return valley <= VALLEY * min(counts[left], counts[right])
