"""PromQL from rows of the metric table.

A label the row does not have, or a rate of something that does not only rise, is refused when the
board is built, not found empty on a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tierscope.domain.errors import BadInput
from tierscope.registry.types import Kind, Metric

RATE_INTERVAL = "$__rate_interval"
"""Grafana's own window: at least four scrapes, whatever the scrape interval and the zoom."""


CLUSTER = "cluster"
"""What a Prometheus of several clusters adds to every series; where it does not, matching all finds all."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A regular expression that a label's whole value must match; may hold board variables."""

    pattern: str


@dataclass(frozen=True, slots=True)
class NoneOf:
    """A regular expression that a label's whole value must not match."""

    pattern: str


Matcher = str | AnyOf | NoneOf

ALL = AnyOf(".*")
"""Whatever it is, and also where there is none."""


NOTHING_CHOSEN: Mapping[str, Matcher] = {}


def gauge(metric: Metric, chosen: Mapping[str, Matcher] = NOTHING_CHOSEN, /, **labels: Matcher) -> str:
    """The series of a gauge, at the time asked for."""
    _require(metric, Kind.GAUGE, "gauge()")
    return selector(metric.name, metric.labels, {**labels, **chosen})


def rate(
    metric: Metric,
    chosen: Mapping[str, Matcher] = NOTHING_CHOSEN,
    /,
    *,
    window: str = RATE_INTERVAL,
    **labels: Matcher,
) -> str:
    """A counter's growth, per second."""
    _require(metric, Kind.COUNTER, "rate()")
    return f"rate({selector(metric.name, metric.labels, {**labels, **chosen})}[{window}])"


def count_rate(metric: Metric, chosen: Mapping[str, Matcher] = NOTHING_CHOSEN, /, **labels: Matcher) -> str:
    """How many observations a histogram takes, per second."""
    _require(metric, Kind.HISTOGRAM, "count_rate()")
    counts = selector(f"{metric.name}_count", metric.labels, {**labels, **chosen})
    return f"rate({counts}[{RATE_INTERVAL}])"


def sum_rate(metric: Metric, chosen: Mapping[str, Matcher] = NOTHING_CHOSEN, /, **labels: Matcher) -> str:
    """How fast what a histogram observes adds up, in its unit per second."""
    _require(metric, Kind.HISTOGRAM, "sum_rate()")
    sums = selector(f"{metric.name}_sum", metric.labels, {**labels, **chosen})
    return f"rate({sums}[{RATE_INTERVAL}])"


def bucket_rate(metric: Metric, chosen: Mapping[str, Matcher] = NOTHING_CHOSEN, /, **labels: Matcher) -> str:
    """The buckets of a histogram as rates; keep `le` when summing them."""
    _require(metric, Kind.HISTOGRAM, "bucket_rate()")
    buckets = selector(f"{metric.name}_bucket", metric.labels, {**labels, **chosen})
    return f"rate({buckets}[{RATE_INTERVAL}])"


def quantile(share: float, buckets: str, *labels: str) -> str:
    """The value that this share of observations did not exceed, by labels; absent where there was none."""
    return f"histogram_quantile({share:g}, {sum_by(buckets, 'le', *labels)}) >= 0"


def sum_by(expression: str, *labels: str) -> str:
    """Sum over all labels but these; over all when none is named."""
    return f"sum by ({', '.join(labels)}) ({expression})" if labels else f"sum({expression})"


def one_of(operation: str, expression: str, *labels: str) -> str:
    """The `max`, `min` or `avg` of series that are alike in these labels."""
    return f"{operation} by ({', '.join(labels)}) ({expression})"


def where_any(expression: str) -> str:
    """The expression where it is above 0, absent elsewhere: a divisor that never makes NaN of no traffic."""
    return f"({expression} > 0)"


def without(whole: str, part: str) -> str:
    """A whole without a part of the same labels; all of it where there is no such part."""
    return f"({whole} - ({part} or 0 * {whole}))"


def ratio(part: str, whole: str, *, on: str = "") -> str:
    """A part over its whole, absent where the whole is 0; `on` is the matching, where labels differ."""
    return f"{part} / {on + ' ' if on else ''}{where_any(whole)}"


def selector(series: str, known: Sequence[str], wanted: Mapping[str, Matcher]) -> str:
    """A series with matchers; raises `BadInput` for a label that is not `known` to be on it."""
    unknown = sorted(set(wanted) - set(known) - {CLUSTER})
    if unknown:
        raise BadInput(
            f"{series} has no label {', '.join(unknown)}",
            where=f"the query was given the labels {', '.join(wanted)}",
            fix=f"use {', '.join(known) or 'no label'}",
        )
    inner = ",".join(_matcher(label, matcher) for label, matcher in wanted.items())
    return f"{series}{{{inner}}}" if inner else series


def _matcher(label: str, wanted: Matcher) -> str:
    match wanted:
        case AnyOf(pattern):
            return f'{label}=~"{pattern}"'
        case NoneOf(pattern):
            return f'{label}!~"{pattern}"'
        case _:
            return f'{label}="{wanted}"'


def _require(metric: Metric, kind: Kind, function: str) -> None:
    if metric.kind is not kind:
        raise BadInput(
            f"{metric.name} is a {metric.kind}, {function} wants a {kind}",
            where="a query",
            fix="gauge() for gauges, rate() for counters, count_rate() and its like for histograms",
        )
