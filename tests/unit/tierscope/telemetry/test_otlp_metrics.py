"""Samples as OpenTelemetry's metrics data carry the page's values, whatever they are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource

from tests.otlp_receiver import attributes_on
from tierscope.registry.metrics import METRICS
from tierscope.registry.types import HistogramValue, Kind, Sample
from tierscope.telemetry.families import by_metric, families
from tierscope.telemetry.otlp_metrics import Lifetime, metrics_data, unit_of

UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "tokens": "{token}", "blocks": "{block}"}

texts = st.text(max_size=8)
counts = st.integers(0, 2**40)


@st.composite
def samples(draw):
    """A sample of any row with any value that its kind may have, or labels no page can hold."""
    metric = draw(st.sampled_from(METRICS))
    labels = tuple(draw(texts) for _ in metric.labels)
    if metric.kind is Kind.HISTOGRAM:
        size = len(metric.buckets) + 1
        value = HistogramValue(
            tuple(draw(st.lists(counts, min_size=size, max_size=size))), draw(st.floats(0, 1e12))
        )
    else:
        value = draw(counts | st.floats(allow_nan=False, allow_infinity=False))
    return Sample(metric, labels, value)


def encoded(readings):
    """Series of the encoded message: a page's names and labels to values."""
    values = by_metric(readings, on_drop=lambda *_: None)
    (resource,) = encode_metrics(metrics_data(values, Resource({}), Lifetime(1, 2))).resource_metrics
    found = {}
    for metric in resource.scope_metrics[0].metrics:
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            labels = attributes_on(point)
            if metric.WhichOneof("data") == "histogram":
                found[metric.name, tuple(labels.values())] = (
                    list(point.bucket_counts), list(point.explicit_bounds), point.count, point.sum
                )  # fmt: skip
            else:
                found[metric.name, tuple(labels.values())] = point.as_double
    return found


def on_page(readings):
    """The same of the page's families, buckets counted alone again."""
    found = {}
    for family in families(readings, on_drop=lambda *_: None):
        if family.type != "histogram":
            found.update({(one.name, tuple(one.labels.values())): one.value for one in family.samples})
            continue
        of_labels = {}
        for one in family.samples:
            labels = tuple(value for name, value in one.labels.items() if name != "le")
            of_labels.setdefault(labels, []).append(one)
        for labels, (*buckets, count, total) in of_labels.items():
            below = [0, *(one.value for one in buckets)]
            alone = [after - before for before, after in pairwise(below)]
            edges = [float(one.labels["le"]) for one in buckets[:-1]]
            found[family.name, labels] = (alone, edges, count.value, total.value)
    return found


@given(readings=st.lists(samples(), max_size=12))
def test_a_reading_is_encoded_as_the_page_has_it(readings):
    """Every series, to the last bit; what the page leaves out is left out here."""
    assert encoded(readings) == on_page(readings)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_unit_is_that_of_the_name(metric):
    """A row that is exempt from carrying one has none here either."""
    ending = metric.name.removesuffix("_total").rpartition("_")[2]

    assert unit_of(metric) == UNITS.get(ending, "")
    assert (unit_of(metric) == "") == ("no_unit" in metric.allow)
