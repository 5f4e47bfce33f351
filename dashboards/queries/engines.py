"""What engines and cache servers say themselves, across the names that their releases gave it.

A family is asked for under every spelling, the newest first: `or` takes the next one for the engines that
do not have the one before. These are the engines' own figures, with their own faults: they are for where
nothing of ours runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dashboards.promql import CLUSTER, RATE_INTERVAL, AnyOf, Matcher, quantile, ratio, selector, sum_by
from tierscope.domain.errors import BadInput
from tierscope.registry import engine_metrics as rows
from tierscope.registry.engine_metrics import EngineMetric
from tierscope.registry.types import Kind

TARGET = ("namespace", "instance")
"""Labels that a scrape adds; an engine does not know its namespace."""
MODEL = "model_name"

SCRAPED: Mapping[str, Matcher] = {label: AnyOf(f"${label}") for label in (CLUSTER, *TARGET)}
"""Matchers for what any scraped process says: LMCache calls models by other names than vLLM."""

ENGINE: Mapping[str, Matcher] = {**SCRAPED, MODEL: AnyOf(f"${MODEL}")}
"""Matchers for what vLLM says."""


def rate_of(metric: EngineMetric, chosen: Mapping[str, Matcher]) -> str:
    """A counter's growth per second, one series a label set, whatever its engine calls it."""
    _require(metric, Kind.COUNTER)
    return _any(f"rate({_series(name, metric, chosen)}[{RATE_INTERVAL}])" for name in metric.spellings)


def gauge_of(metric: EngineMetric, chosen: Mapping[str, Matcher]) -> str:
    """A reading, whatever its engine calls it."""
    _require(metric, Kind.GAUGE)
    return _any(_series(name, metric, chosen) for name in metric.spellings)


def part_rate(metric: EngineMetric, part: str, chosen: Mapping[str, Matcher]) -> str:
    """A part of a histogram (`_bucket`, `_sum`, `_count`) as a rate."""
    _require(metric, Kind.HISTOGRAM)
    return _any(f"rate({_series(name + part, metric, chosen)}[{RATE_INTERVAL}])" for name in metric.spellings)


def quantile_of(metric: EngineMetric, share: float) -> str:
    """The value that this share of a histogram's observations did not exceed, by model."""
    return quantile(share, part_rate(metric, "_bucket", ENGINE), MODEL)


def mean_of(metric: EngineMetric) -> str:
    """The mean of a histogram's observations, by model."""
    sums, counts = (sum_by(part_rate(metric, part, ENGINE), MODEL) for part in ("_sum", "_count"))
    return ratio(sums, counts)


def by_model(metric: EngineMetric) -> str:
    """A counter's growth per second by model."""
    return sum_by(rate_of(metric, ENGINE), MODEL)


def by_source(metric: EngineMetric) -> str:
    """The same by vLLM's name of the source."""
    return sum_by(rate_of(metric, ENGINE), "source")


def now_by_model(metric: EngineMetric) -> str:
    """A reading summed over the engines of a model."""
    return sum_by(gauge_of(metric, ENGINE), MODEL)


def l0_hit_ratio() -> str:
    """Share of the tokens looked up in L0 that it had, by model."""
    return ratio(by_model(rows.HITS), by_model(rows.QUERIES))


def connector_hit_ratio() -> str:
    """Share of what L0 left over that the connector offered, by model; absent where no connector is asked.

    What vLLM counts as asked of the connector is in no release always what L0 left over: it is no divisor.
    """
    left_over = f"({by_model(rows.QUERIES)} - {by_model(rows.HITS)})"
    return f"{ratio(by_model(rows.EXTERNAL_HITS), left_over)} and {by_model(rows.EXTERNAL_QUERIES)} > 0"


def usage(operation: str) -> str:
    """Share of L0 that running requests use: `avg` or `max` of the engines, by model."""
    return f"{operation} by ({MODEL}) ({gauge_of(rows.USAGE, ENGINE)})"


def server_hit_ratio(found: EngineMetric, *above: EngineMetric) -> str:
    """Share of what was looked up in cache servers, and not found in tiers above, that a tier had."""
    asked = total(rows.SERVER_REQUESTED)
    for one in above:
        asked = f"{asked} - {total(one)}"
    return ratio(total(found), f"({asked})")


def inside_hit_ratio() -> str:
    """Share of what was looked up in LMCache inside engines that it had; workers count the same lookups."""
    return ratio(total(rows.INSIDE_FOUND), total(rows.INSIDE_REQUESTED))


def total(metric: EngineMetric) -> str:
    """A counter's growth per second over everything that is scraped."""
    return sum_by(rate_of(metric, SCRAPED))


def of_one_worker(metric: EngineMetric) -> str:
    """A counter that every worker of an engine counts alike: of the worker that counts most, over engines."""
    kept = ", ".join((CLUSTER, *TARGET))
    return f"sum(max by ({kept}) ({rate_of(metric, SCRAPED)}))"


def over_all(operation: str, metric: EngineMetric) -> str:
    """A reading over everything that is scraped: its `sum`, `avg` or `max`."""
    return f"{operation}({gauge_of(metric, SCRAPED)})"


def _series(name: str, metric: EngineMetric, chosen: Mapping[str, Matcher]) -> str:
    return selector(name, (*TARGET, *metric.labels), chosen)


def _any(expressions: Iterable[str]) -> str:
    found = list(expressions)
    return found[0] if len(found) == 1 else f"({' or '.join(found)})"


def _require(metric: EngineMetric, kind: Kind) -> None:
    if metric.kind is not kind:
        raise BadInput(
            f"{metric.names[0]} is a {metric.kind}, not a {kind}",
            where="a query on engines' own metrics",
            fix="rate_of() for counters, gauge_of() for gauges, part_rate() for histograms",
        )
