"""Samples to Prometheus families, one a metric; what contradicts the metric table is left out and told."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Exemplar as PageExemplar

from tierscope.registry.metrics import METRICS
from tierscope.registry.types import HistogramValue, Kind, Metric, Sample

log = logging.getLogger(__name__)

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
Labels = tuple[str, ...]
Value = float | HistogramValue
Bucket = tuple[str, float] | tuple[str, float, PageExemplar]


class DropReason(StrEnum):
    """Why a sample is left out of a page."""

    NOT_IN_TABLE = "not_in_table"
    BAD_LABELS = "bad_labels"
    BAD_VALUE = "bad_value"
    DUPLICATE = "duplicate"
    READ_FAILED = "read_failed"


OnDrop = Callable[[DropReason, str], None]


def _log_drop(reason: DropReason, what: str) -> None:
    log.warning("sample left out (%s): %s", reason, what)


def families(
    samples: Iterable[Sample], *, table: Sequence[Metric] = METRICS, on_drop: OnDrop = _log_drop
) -> Iterator[Family]:
    """Yield one family for each metric that has samples; see `by_metric` for what is left out."""
    return (family(metric, values) for metric, values in by_metric(samples, table=table, on_drop=on_drop))


def by_metric(
    samples: Iterable[Sample], *, table: Sequence[Metric] = METRICS, on_drop: OnDrop = _log_drop
) -> Iterator[tuple[Metric, Mapping[Labels, Value]]]:
    """Yield each metric that has samples with its values by labels, in the table's order.

    A sample that contradicts the table, or repeats the labels of an earlier one, is told to
    `on_drop(reason, what)` and left out.
    """
    rows = {metric.name: metric for metric in table}
    values: dict[str, dict[Labels, Value]] = {}
    for sample in samples:
        of_metric = values.setdefault(sample.metric.name, {})
        reason = _fault(sample, rows)
        if reason is None and sample.labels in of_metric:
            reason = DropReason.DUPLICATE
        if reason is None:
            of_metric[sample.labels] = sample.value
        else:
            on_drop(reason, f"{sample.metric.name}{sample.labels!r} = {sample.value!r}")
    for metric in table:
        if values.get(metric.name):
            yield metric, values[metric.name]


def family(metric: Metric, values: Mapping[Labels, Value]) -> Family:
    """Build the family of one metric from its values by labels; empty values only describe it."""
    if metric.kind is Kind.HISTOGRAM:
        return _histogram_family(metric, values)
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    built = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        assert not isinstance(value, HistogramValue)
        built.add_metric(labels, value)
    return built


def _histogram_family(metric: Metric, values: Mapping[Labels, Value]) -> HistogramMetricFamily:
    built = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    edges = [*(repr(float(edge)) for edge in metric.buckets), "+Inf"]
    for labels, value in values.items():
        assert isinstance(value, HistogramValue)
        built.add_metric(labels, list(_buckets(edges, value)), value.sum)
    return built


def _buckets(edges: Sequence[str], value: HistogramValue) -> Iterator[Bucket]:
    """Edge, cumulative count and exemplar of each bucket; pages in the older format leave exemplars out."""
    exemplars = value.exemplars or (None,) * len(edges)
    for edge, count, one in zip(edges, accumulate(value.counts), exemplars, strict=True):
        if one is None:
            yield edge, count
        else:
            yield edge, count, PageExemplar({"trace_id": one.trace_id}, one.value, one.at_unix_seconds)


def _fault(sample: Sample, rows: Mapping[str, Metric]) -> DropReason | None:
    """Say what is wrong with a sample, if anything is."""
    if rows.get(sample.metric.name) != sample.metric:
        return DropReason.NOT_IN_TABLE
    if not _are_labels(sample.labels, len(sample.metric.labels)):
        return DropReason.BAD_LABELS
    try:
        sound = _is_sound(sample.metric, sample.value)
    except TypeError:
        sound = False
    return None if sound else DropReason.BAD_VALUE


def _are_labels(labels: object, wanted: int) -> bool:
    return isinstance(labels, tuple) and len(labels) == wanted and all(map(_is_text, labels))


def _is_text(label: object) -> bool:
    """Whether a label can be written to a page; a lone surrogate cannot."""
    if not isinstance(label, str):
        return False
    return label.isascii() or not any("\ud800" <= character <= "\udfff" for character in label)


def _is_sound(metric: Metric, value: Value) -> bool:
    """Whether the value fits its metric; raises TypeError where it is no number at all."""
    if isinstance(value, HistogramValue) != (metric.kind is Kind.HISTOGRAM):
        return False
    if isinstance(value, HistogramValue):
        whole = len(value.counts) == len(metric.buckets) + 1
        whole = whole and len(value.exemplars) in {0, len(value.counts)}
        return whole and min(value.counts) >= 0 and math.isfinite(value.sum)
    return math.isfinite(value) and (value >= 0 or metric.kind is Kind.GAUGE)
