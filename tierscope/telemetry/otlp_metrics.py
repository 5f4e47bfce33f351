"""Checked samples as OpenTelemetry's metrics data: the values of the page, point by point.

The SDK's instruments cannot be set to a histogram we have already counted, cap how many series they
keep, and would read once an instrument. Its data types carry what one reading says as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tierscope.registry.types import HistogramValue, Kind, Metric
from tierscope.telemetry.families import Labels, Value
from tierscope.telemetry.otlp import SCOPE

UNITS = {"_seconds": "s", "_bytes": "By", "_ratio": "1", "_tokens": "{token}", "_blocks": "{block}"}
"""UCUM units by the ending of a name. Prometheus adds none of them to a name that has it."""


class Lifetime(NamedTuple):
    """Unix nanoseconds: since when counters count, and when they were read."""

    since_ns: int
    at_ns: int


def metrics_data(
    values: Iterable[tuple[Metric, Mapping[Labels, Value]]], resource: Resource, lifetime: Lifetime
) -> MetricsData:
    """Return one reading: every counter and histogram cumulative, under the names and labels of the page."""
    metrics = [
        SdkMetric(metric.name, metric.help, unit_of(metric), _data(metric, of_metric, lifetime))
        for metric, of_metric in values
    ]
    scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scope], schema_url="")])


def unit_of(metric: Metric) -> str:
    """Return the unit a metric's name ends in, empty where it has none."""
    name = metric.name.removesuffix("_total")
    return next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")


def _data(metric: Metric, values: Mapping[Labels, Value], lifetime: Lifetime) -> Gauge | Histogram | Sum:
    if metric.kind is Kind.HISTOGRAM:
        points = [_histogram_point(metric, labels, value, lifetime) for labels, value in values.items()]
        return Histogram(points, AggregationTemporality.CUMULATIVE)
    numbers = [_number_point(metric, labels, value, lifetime) for labels, value in values.items()]
    if metric.kind is Kind.COUNTER:
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _number_point(metric: Metric, labels: Labels, value: Value, lifetime: Lifetime) -> NumberDataPoint:
    assert not isinstance(value, HistogramValue)
    # always a double, as on the page: a series must not change its type with its value
    return NumberDataPoint(_attributes(metric, labels), lifetime.since_ns, lifetime.at_ns, float(value))


def _histogram_point(metric: Metric, labels: Labels, value: Value, lifetime: Lifetime) -> HistogramDataPoint:
    assert isinstance(value, HistogramValue)
    counts = [int(count) for count in value.counts]
    return HistogramDataPoint(
        attributes=_attributes(metric, labels),
        start_time_unix_nano=lifetime.since_ns,
        time_unix_nano=lifetime.at_ns,
        count=sum(counts),
        sum=float(value.sum),
        bucket_counts=counts,
        explicit_bounds=metric.buckets,
        min=None,  # type: ignore[arg-type]  # not known: left out of the message
        max=None,  # type: ignore[arg-type]
    )


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
