"""The rules of the metric table; an exception stands on the row, never here."""

from __future__ import annotations

import re

import pytest

from tierscope.registry import (
    advice_metrics,
    block_metrics,
    metrics,
    miss_metrics,
    pool_metrics,
    regression_metrics,
    store_metrics,
    tenant_metrics,
    transfer_metrics,
)
from tierscope.registry.metrics import GROUPS, METRICS
from tierscope.registry.types import HistogramValue, Kind, Metric, Sample

UNITS = ("_seconds", "_bytes", "_ratio", "_blocks", "_tokens")
NOT_BASE_UNITS = re.compile(
    r"_(ms|us|ns|milliseconds|minutes|hours|kib|mib|gib|kb|mb|gb|perc|percent|percentage|pct)(_|$)"
)
SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
PROMETHEUS_OWN = {"le", "quantile", "job", "instance"}
RULES = {"no_unit"}

each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def unit_of(metric: Metric) -> str | None:
    """The base unit a name ends in, `_total` aside."""
    name = metric.name.removesuffix("_total")
    return next((unit for unit in UNITS if name.endswith(unit)), None)


@each_metric
def test_a_name_is_snake_case_under_our_prefix(metric):
    """Every published name starts with the product's and is plain snake case."""
    assert metric.name.startswith("tierscope_")
    assert SNAKE.fullmatch(metric.name)


@each_metric
def test_counters_and_only_counters_end_in_total(metric):
    """A reader knows from the name whether to take a rate."""
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)


@each_metric
def test_a_unit_ends_the_name_or_the_row_says_there_is_none(metric):
    """A name carries its base unit; a row without one says so, and a row with one claims no exemption."""
    assert (unit_of(metric) is None) == ("no_unit" in metric.allow)


@each_metric
def test_only_base_units_exist(metric):
    """Seconds, bytes and ratios from 0 to 1: never milliseconds, gibibytes or per cent."""
    assert not NOT_BASE_UNITS.search(metric.name)


@each_metric
def test_an_exemption_names_a_rule_that_exists(metric):
    """`allow` cannot silence a rule by a misspelt name."""
    assert set(metric.allow) <= RULES


@each_metric
def test_labels_are_snake_case_and_never_those_of_prometheus(metric):
    """A scrape adds `job` and `instance`, a histogram `le`: ours never collide with them."""
    assert all(SNAKE.fullmatch(label) for label in metric.labels)
    assert not PROMETHEUS_OWN & set(metric.labels)
    assert len(set(metric.labels)) == len(metric.labels)


@each_metric
def test_a_row_says_what_it_counts_and_what_it_answers(metric):
    """`help` is a sentence, `answers` is a question someone has."""
    assert metric.help.endswith(".")
    assert metric.answers.endswith("?")


@each_metric
def test_histograms_and_only_histograms_have_rising_buckets(metric):
    """Upper edges rise strictly and leave +Inf to the exposition."""
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert float("inf") not in metric.buckets


@each_metric
def test_a_retired_row_names_its_successor(metric):
    """Who follows `replaced_by` finds a row."""
    assert metric.replaced_by is None or metric.replaced_by in {other.name for other in METRICS}


def test_every_row_is_listed_once():
    """A row that no group lists is neither published nor documented."""
    tables = (
        metrics,
        advice_metrics,
        block_metrics,
        miss_metrics,
        pool_metrics,
        regression_metrics,
        store_metrics,
        tenant_metrics,
        transfer_metrics,
    )
    rows = [value for table in tables for value in vars(table).values() if isinstance(value, Metric)]

    assert sorted(row.name for row in rows) == sorted(metric.name for metric in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert [metric for group in GROUPS for metric in group.metrics] == list(METRICS)


def test_no_name_is_the_series_of_another():
    """A histogram's `_count`, `_sum` and `_bucket` belong to it alone."""
    names = {metric.name for metric in METRICS}

    histograms = {metric.name for metric in METRICS if metric.kind is Kind.HISTOGRAM}
    assert not names & {name + part for name in histograms for part in ("_bucket", "_count", "_sum")}


def test_published_names_never_vanish_or_change(repository):
    """What the baseline says of a name the table says too, and each new row is added to it."""
    baseline = (repository / "tests/golden/metrics.baseline").read_text().splitlines()

    now = {f"{metric.name} {metric.kind} {','.join(metric.labels) or '-'}" for metric in METRICS}
    lost = sorted(set(baseline) - now)
    new = sorted(now - set(baseline))
    assert not lost, f"published, and now gone or changed (retire a row with replaced_by): {lost}"
    assert not new, f"add to tests/golden/metrics.baseline, sorted: {new}"
    assert baseline == sorted(baseline)


def test_a_sample_wants_one_value_for_each_label():
    """The error prints the labels wanted and the values given."""
    with pytest.raises(ValueError, match=r"\('source',\), not the values \('a', 'b'\)"):
        Sample(metrics.SOURCE_UP, ("a", "b"), 1.0)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (metrics.STORE_BYTES, HistogramValue((1,), 1.0)),
        (metrics.LOAD_SECONDS, 1.0),
    ],
)
def test_a_sample_is_of_its_metrics_kind(metric, value):
    """A histogram wants a histogram's value, everything else a number."""
    with pytest.raises(ValueError, match=metric.name):
        Sample(metric, tuple("x" for _ in metric.labels), value)
