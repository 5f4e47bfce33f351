"""What a row of the metric table and of the span table says, and the samples made from a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a metric behaves over time, in Prometheus' sense."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric we publish.

    `help` says what is counted, `answers` the question it answers; `buckets` are a histogram's upper
    edges in the metric's unit, without +Inf. `allow` names the naming rules this row is exempt from;
    a retired row keeps emitting for one release and names its successor in `replaced_by`.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    answers: str
    buckets: tuple[float, ...] = ()
    allow: tuple[str, ...] = ()
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """Metrics about one subject, in reading order; `published_by` names the processes that serve them."""

    title: str
    published_by: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One observation that a trace shows: the trace's id (32 hex digits), what was observed, and when."""

    trace_id: str
    value: float
    at_unix_seconds: float


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """A histogram at one moment: count per bucket (not cumulative, the last one is +Inf) and the sum.

    `exemplars` are the latest of each bucket, None where it has none; empty where no bucket has one.
    """

    counts: tuple[int, ...]
    sum: float
    exemplars: tuple[Exemplar | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric; `labels` are the values in the row's label order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | HistogramValue

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.metric.labels):
            raise ValueError(
                f"{self.metric.name} wants the labels {self.metric.labels}, not the values {self.labels}"
            )
        if isinstance(self.value, HistogramValue) != (self.metric.kind is Kind.HISTOGRAM):
            raise ValueError(f"{self.metric.name} is a {self.metric.kind}, was given {self.value!r}")


@dataclass(frozen=True, slots=True)
class SpanAttribute:
    """One attribute of a span: its key, the Python type of its value, and what it says."""

    key: str
    value_type: type[str] | type[int] | type[float] | type[bool]
    help: str


@dataclass(frozen=True, slots=True)
class Span:
    """One span we emit: its name, what it covers, its attributes in order."""

    name: str
    help: str
    attributes: Sequence[SpanAttribute]
