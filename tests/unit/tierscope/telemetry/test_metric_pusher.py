"""What is pushed over OTLP is what /metrics shows, and a receiver that is not there hurts nobody."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.otlp_receiver import attributes_on
from tests.populated_page import populated_samples
from tests.ports import free_port
from tierscope.domain.errors import BadSettings
from tierscope.domain.settings import OtlpProtocol
from tierscope.registry.metrics import DROPPED_SAMPLES, METRICS, REQUESTS, SOURCE_UP, STORE_BYTES
from tierscope.registry.types import Kind, Metric, Sample
from tierscope.telemetry.metric_pusher import MetricPusher
from tierscope.telemetry.prometheus import SampleCollector

STARTED_SECONDS = 1_700_000_000.5
READ_SECONDS = STARTED_SECONDS + 60
NEVER = 3600.0
PATIENCE_SECONDS = 60.0
"""Longest wait for the push, on a machine that does much else."""
CUMULATIVE = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE of the protocol."""


@pytest.fixture
def pusher_for(protocol):
    """Make a pusher of the test's protocol that pushes when it is closed, unless told otherwise."""

    def make(read, endpoint, **options):
        options = {"interval_seconds": NEVER, **options}
        return closing(
            MetricPusher(read, endpoint, service_name="svc", protocol=OtlpProtocol(protocol), **options)
        )

    return make


@pytest.fixture
def pushed(receiver, pusher_for):
    """Push one reading and return its metrics as received."""

    def push(read, **options):
        with pusher_for(read, receiver.metrics_endpoint, **options) as pusher:
            pusher.close(PATIENCE_SECONDS)
        return metrics_in(receiver.pushes)

    return push


def metrics_in(pushes):
    """Metrics by name; a metric that was split over requests is put together again."""
    found = {}
    for push in pushes:
        for resource in push.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    known = found.setdefault(metric.name, metric)
                    if known is not metric:
                        known.MergeFrom(metric)
    return found


def points_of(metric):
    return list(getattr(metric, metric.WhichOneof("data")).data_points)


def page_values(read):
    """Series of the page of `read`: name and labels to value."""
    registry = CollectorRegistry()
    registry.register(SampleCollector(read))
    page = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def pushed_values(metrics):
    """The series a page would have for what was pushed."""
    return {key: value for metric in metrics.values() for key, value in series_of(metric)}


def series_of(metric):
    for point in points_of(metric):
        labels = attributes_on(point)
        if metric.WhichOneof("data") != "histogram":
            yield (metric.name, frozenset(labels.items())), point.as_double
            continue
        edges = [*map(repr, point.explicit_bounds), "+Inf"]
        below = 0
        for edge, count in zip(edges, point.bucket_counts, strict=True):
            below += count
            yield (f"{metric.name}_bucket", frozenset({**labels, "le": edge}.items())), below
        yield (f"{metric.name}_count", frozenset(labels.items())), point.count
        yield (f"{metric.name}_sum", frozenset(labels.items())), point.sum


def one_sample():
    return [Sample(STORE_BYTES, (), 7)]


def unused_endpoint(protocol):
    return f"http://127.0.0.1:{free_port()}" + ("/v1/metrics" if protocol == "http" else "")


def test_every_metric_is_pushed_with_the_values_of_the_page(pushed):
    """Name, labels and value of every series of every row, bucket by bucket."""

    def read():
        return populated_samples(12.5)

    metrics = pushed(read)

    assert set(metrics) == {metric.name for metric in METRICS}
    assert pushed_values(metrics) == page_values(read)


def test_what_is_left_out_of_a_page_is_left_out_of_a_push(pushed):
    """The same samples are refused, counted under the same reason, and the rest goes out."""
    stranger = Metric("somebody_elses_total", Kind.COUNTER, (), "Help.", "Why?")

    def read():
        yield Sample(stranger, (), 1)
        yield Sample(STORE_BYTES, (), float("nan"))
        yield from one_sample()
        yield from one_sample()
        raise OSError("gone")

    metrics = pushed(read)

    assert set(metrics) == {STORE_BYTES.name, DROPPED_SAMPLES.name}
    assert pushed_values(metrics) == page_values(read)
    assert sum(point.as_double for point in points_of(metrics[DROPPED_SAMPLES.name])) == 4


def test_a_metric_carries_its_kind_unit_and_help(pushed):
    """Counters are monotonic sums, both they and histograms cumulative; gauges are gauges."""
    metrics = pushed(lambda: populated_samples(1))

    kinds = {Kind.COUNTER: "sum", Kind.GAUGE: "gauge", Kind.HISTOGRAM: "histogram"}
    for row in METRICS:
        metric = metrics[row.name]
        data = getattr(metric, metric.WhichOneof("data"))
        assert metric.WhichOneof("data") == kinds[row.kind]
        assert metric.description == row.help
        assert row.kind is Kind.GAUGE or data.aggregation_temporality == CUMULATIVE
        assert row.kind is not Kind.COUNTER or data.is_monotonic
    assert metrics["tierscope_load_seconds"].unit == "s"
    assert metrics["tierscope_request_tokens_total"].unit == "{token}"
    assert metrics[STORE_BYTES.name].unit == "By"
    assert metrics[REQUESTS.name].unit == ""


def test_points_count_since_the_pusher_was_made(pushed):
    """A receiver sees a restart by the start time; a gauge has none. A clock set back does no harm."""
    readings = iter([STARTED_SECONDS, READ_SECONDS])

    metrics = pushed(lambda: populated_samples(1), clock=lambda: next(readings))

    for metric in metrics.values():
        since = 0 if metric.HasField("gauge") else STARTED_SECONDS * 1e9
        assert {point.start_time_unix_nano for point in points_of(metric)} == {since}
        assert {point.time_unix_nano for point in points_of(metric)} == {READ_SECONDS * 1e9}


def test_no_point_is_older_than_its_start(pushed):
    """A clock that is set back would make it so, and receivers refuse it."""
    readings = iter([STARTED_SECONDS, STARTED_SECONDS - 60])

    metrics = pushed(lambda: populated_samples(1), clock=lambda: next(readings))

    times = {point.time_unix_nano for metric in metrics.values() for point in points_of(metric)}
    assert times == {STARTED_SECONDS * 1e9}


def test_a_histogram_claims_no_extremes(pushed):
    """Buckets do not tell them; an invented 0 would be shown as the smallest value."""
    metrics = pushed(lambda: populated_samples(1))

    histograms = [
        point for metric in metrics.values() if metric.HasField("histogram") for point in points_of(metric)
    ]
    assert histograms
    assert not [point for point in histograms if point.HasField("min") or point.HasField("max")]


def test_a_large_reading_is_sent_in_parts(receiver, pushed):
    """A gRPC receiver refuses 4 MiB; every series arrives, in some request."""
    samples = [Sample(SOURCE_UP, (f"source-{number}",), number) for number in range(4_500)]

    metrics = pushed(lambda: samples)

    assert len(receiver.pushes) == 3
    values = pushed_values({SOURCE_UP.name: metrics[SOURCE_UP.name]})
    assert sorted(values.values()) == [float(number) for number in range(4_500)]


def test_pushes_come_at_the_interval(receiver, pusher_for):
    """Without anyone closing it; each is a new reading."""
    count = iter(range(1_000))

    def read():
        return [Sample(STORE_BYTES, (), next(count))]

    with pusher_for(read, receiver.metrics_endpoint, interval_seconds=0.02):
        assert receiver.wait(lambda: len(receiver.pushes) >= 3)

    values = [points_of(metrics_in([push])[STORE_BYTES.name])[0].as_double for push in receiver.pushes[:3]]
    assert values == [0, 1, 2]


def test_the_service_stands_in_the_resource(receiver, pushed):
    """With its instance, by which a receiver tells two exporters apart."""
    pushed(one_sample, service_instance="node-1")

    resource = attributes_on(receiver.pushes[0].resource_metrics[0].resource)
    assert (resource["service.name"], resource["service.instance.id"]) == ("svc", "node-1")


def test_pushes_are_counted_and_made_into_samples(receiver, pusher_for):
    """The page tells whether the receiver takes what it is sent."""
    with pusher_for(one_sample, receiver.metrics_endpoint) as pusher:
        pusher.close()
        pusher.close()

    assert {sample.labels[0]: sample.value for sample in pusher.samples()} == {
        "exported": 1,
        "not_exported": 0,
    }


def test_an_unreachable_receiver_is_counted_and_told_once(protocol, pusher_for, caplog):
    """The reading goes on; the log has one line however often it failed, and none of the library's."""
    tries = threading.Semaphore(0)

    def read():
        tries.release()
        return one_sample()

    with pusher_for(
        read, unused_endpoint(protocol), interval_seconds=0.02, export_timeout_seconds=0.2
    ) as pusher:
        assert all(tries.acquire(timeout=20) for _ in range(3))

    assert pusher.results["not_exported"] >= 2
    assert pusher.results["exported"] == 0
    assert len([record for record in caplog.records if "metrics were not taken" in record.getMessage()]) == 1
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_a_receiver_that_refuses_is_counted(receiver, pusher_for):
    """The next push says it all again."""
    receiver.refuse = True

    with pusher_for(one_sample, receiver.metrics_endpoint) as pusher:
        pass

    assert pusher.results["not_exported"] == 1


def test_a_receiver_that_never_answers_does_not_hold_up_the_end(receiver, pusher_for):
    """Closing waits as long as it was told and no longer."""
    receiver.hold = True
    with pusher_for(
        one_sample, receiver.metrics_endpoint, interval_seconds=0.01, export_timeout_seconds=30
    ) as pusher:
        assert receiver.wait(lambda: receiver.asked)
        pusher.close(timeout_seconds=0.1)

    assert receiver.asked == 1
    receiver.release()


def test_a_slow_receiver_costs_pushes_only(receiver, pusher_for):
    """Once it answers again, the newest reading arrives: cumulative values lose nothing."""
    state = {"value": 1.0}
    receiver.hold = True

    with pusher_for(
        lambda: [Sample(STORE_BYTES, (), state["value"])],
        receiver.metrics_endpoint,
        interval_seconds=0.01,
        export_timeout_seconds=0.2,
    ) as pusher:
        assert receiver.wait(lambda: pusher.results["not_exported"] >= 1)
        state["value"] = 2.0
        receiver.release()
        assert receiver.wait(lambda: pusher.results["exported"] >= 2)

    (last,) = points_of(metrics_in(receiver.pushes[-1:])[STORE_BYTES.name])
    assert last.as_double == 2.0


def test_without_an_address_nothing_happens(pusher_for):
    """Pushing is off: nothing is read, counted or published."""
    reads = []

    with pusher_for(lambda: reads.append(1) or [], None) as pusher:
        pass

    assert reads == []
    assert list(pusher.samples()) == []


@pytest.mark.parametrize(
    ("protocol", "endpoint", "fix"),
    [
        ("http", "http://127.0.0.1:4318", "4318/v1/metrics"),
        ("grpc", "http://127.0.0.1:4318/v1/metrics", "4317"),
    ],
    ids=["http without path", "grpc with path"],
)
def test_an_address_of_the_other_protocol_is_refused(pusher_for, endpoint, fix):
    """By the setting's name, before anything starts."""
    with pytest.raises(BadSettings, match=fix) as refused:
        pusher_for(one_sample, endpoint)

    assert "otlp_metrics_endpoint" in str(refused.value)
