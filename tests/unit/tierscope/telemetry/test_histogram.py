"""Observations end up in the bucket they belong to."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.registry.metrics import LOAD_SECONDS, STORE_BYTES
from tierscope.registry.types import Exemplar
from tierscope.telemetry.histogram import HistogramAccumulator

ENGINE = ("shop", "chat", "m", "pod-0", "0")
L1 = (*ENGINE, "l1")


def counts(accumulator):
    return {sample.labels: sample.value.counts for sample in accumulator.samples()}


def test_an_edge_belongs_to_the_bucket_it_closes():
    """Prometheus buckets are `le`: less or equal."""
    accumulator = HistogramAccumulator(LOAD_SECONDS)

    accumulator.observe(L1, LOAD_SECONDS.buckets[2])

    assert counts(accumulator)[L1][2] == 1


def test_what_is_beyond_the_last_edge_is_counted():
    """The last bucket is +Inf."""
    accumulator = HistogramAccumulator(LOAD_SECONDS)

    accumulator.observe(L1, 1e9)

    assert counts(accumulator)[L1][-1] == 1


@given(values=st.lists(st.floats(-1, 20), max_size=40))
def test_buckets_agree_with_comparing_each_value_to_each_edge(values):
    """The slow twin: a value is in the first bucket whose edge is not below it."""
    accumulator = HistogramAccumulator(LOAD_SECONDS)
    edges = [*LOAD_SECONDS.buckets, math.inf]

    for value in values:
        accumulator.observe(L1, value)

    wanted = [0] * len(edges)
    for value in values:
        wanted[next(index for index, edge in enumerate(edges) if value <= edge)] += 1
    assert counts(accumulator) == ({L1: tuple(wanted)} if values else {})
    assert sum(sample.value.sum for sample in accumulator.samples()) == pytest.approx(sum(values))


def test_label_values_are_counted_apart():
    """Each set of label values is a series."""
    accumulator = HistogramAccumulator(LOAD_SECONDS)

    accumulator.observe(L1, 0.1)
    accumulator.observe((*ENGINE, "l2"), 0.1)

    assert {labels[-1] for labels in counts(accumulator)} == {"l1", "l2"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value):
    """It would make the sum useless for ever."""
    with pytest.raises(ValueError, match="cannot observe"):
        HistogramAccumulator(LOAD_SECONDS).observe(L1, value)


def test_wrong_labels_are_refused():
    """The error prints the labels wanted and those given."""
    with pytest.raises(ValueError, match=r"'tier'\), not \('l1',\)"):
        HistogramAccumulator(LOAD_SECONDS).observe(("l1",), 0.1)


def test_only_a_histogram_metric_accumulates():
    """Counters and gauges have no buckets."""
    with pytest.raises(ValueError, match="is a gauge"):
        HistogramAccumulator(STORE_BYTES)


def test_a_bucket_keeps_its_latest_exemplar():
    """Others have none; a histogram without any says so in one word."""
    told = HistogramAccumulator(LOAD_SECONDS)
    labels = ("ns", "chat", "m", "chat-0", "0", "l1")
    told.observe(labels, 0.0004)
    (sample,) = told.samples()
    assert sample.value.exemplars == ()

    for number, seconds in enumerate((0.0007, 0.0008)):
        told.observe(labels, seconds, exemplar=Exemplar(str(number) * 32, seconds, 1.7e9 + number))

    (sample,) = told.samples()
    assert sample.value.counts[:3] == (1, 2, 0)
    assert sample.value.exemplars[:3] == (None, Exemplar("1" * 32, 0.0008, 1.7e9 + 1), None)
