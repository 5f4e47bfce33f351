"""Observations of one histogram metric, by label values."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat

from tierscope.registry.types import Exemplar, HistogramValue, Kind, Metric, Sample


class _Series:
    __slots__ = ("counts", "exemplars", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.exemplars: dict[int, Exemplar] = {}
        self.sum = 0.0


class HistogramAccumulator:
    """Counts observations into the metric's buckets. Not thread-safe: its owner holds the lock."""

    def __init__(self, metric: Metric) -> None:
        if metric.kind is not Kind.HISTOGRAM:
            raise ValueError(f"{metric.name} is a {metric.kind}, not a histogram")
        self.metric = metric
        self._series: dict[tuple[str, ...], _Series] = {}

    def observe(
        self, labels: tuple[str, ...], value: float, count: int = 1, exemplar: Exemplar | None = None
    ) -> None:
        """Count a value so many times, in the metric's unit; an edge belongs to the bucket it closes.

        Its exemplar takes the place of the bucket's last one.
        Raises ValueError for a value that is not finite or for labels the metric does not have.
        """
        if not math.isfinite(value):
            raise ValueError(f"{self.metric.name} cannot observe {value}")
        series = self._series_of(labels)
        bucket = bisect_left(self.metric.buckets, value)
        series.counts[bucket] += count
        series.sum += value * count
        if exemplar is not None:
            series.exemplars[bucket] = exemplar

    def observe_each(self, labels: tuple[str, ...], values: Sequence[float]) -> None:
        """Count many values of one series; raises as `observe`, then having counted none of them."""
        if not values:
            return
        total = sum(values)
        if not math.isfinite(total):
            raise ValueError(f"{self.metric.name} cannot observe all of {values}")
        series = self._series_of(labels)
        for bucket, count in Counter(map(bisect_left, repeat(self.metric.buckets), values)).items():
            series.counts[bucket] += count
        series.sum += total

    def _series_of(self, labels: tuple[str, ...]) -> _Series:
        series = self._series.get(labels)
        if series is None:
            if len(labels) != len(self.metric.labels):
                raise ValueError(f"{self.metric.name} wants the labels {self.metric.labels}, not {labels}")
            series = self._series[labels] = _Series(len(self.metric.buckets) + 1)
        return series

    def samples(self) -> Iterator[Sample]:
        """Yield the present state, one sample for each set of label values."""
        for labels, series in self._series.items():
            counts, latest = tuple(series.counts), series.exemplars
            exemplars = tuple(latest.get(bucket) for bucket in range(len(counts))) if latest else ()
            yield Sample(self.metric, labels, HistogramValue(counts, series.sum, exemplars))
