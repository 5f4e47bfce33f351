"""Samples become a page that Prometheus reads, and nothing in them can break a scrape."""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
from collections import Counter
from contextlib import closing

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tierscope.domain.errors import BadSettings
from tierscope.registry.metrics import (
    LOAD_SECONDS,
    METRICS,
    REQUEST_TOKENS,
    SOURCE_UP,
    STORE_BYTES,
)
from tierscope.registry.types import HistogramValue, Kind, Metric, Sample
from tierscope.telemetry.prometheus import MetricsServer, SampleCollector, families

ENGINE = ("shop", "chat", "m", "pod-0", "0")


def sample_of(metric, value=1.0):
    """One sample with a value of the right kind."""
    labels = tuple(f"{label} x" for label in metric.labels)
    if metric.kind is Kind.HISTOGRAM:
        return Sample(metric, labels, HistogramValue((1,) * (len(metric.buckets) + 1), 2.5))
    return Sample(metric, labels, value)


def tokens(tier, value):
    return Sample(REQUEST_TOKENS, (*ENGINE, tier), value)


def page_of(read):
    """The page a scrape of `read` gets, and its collector."""
    registry = CollectorRegistry()
    collector = SampleCollector(read)
    registry.register(collector)
    return generate_latest(registry).decode(), collector


def values_on(page):
    """Series name and labels to value, ours about ourselves aside."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "dropped" not in sample.name
    }


def forged(metric, labels, value):
    """A sample that its own check would have refused."""
    sample = object.__new__(Sample)
    for name, field in (("metric", metric), ("labels", labels), ("value", value)):
        object.__setattr__(sample, name, field)
    return sample


def test_every_metric_of_the_table_reaches_the_page():
    """Each row has its help, its kind and its value on the page."""
    page, _ = page_of(lambda: map(sample_of, METRICS))

    on_page = {family.name: family.type for family in text_string_to_metric_families(page)}
    assert {metric.name.removesuffix("_total"): metric.kind.value for metric in METRICS} == on_page


def test_samples_of_one_metric_make_one_family_wherever_they_come():
    """Prometheus refuses a page that names a metric twice."""
    mixed = [tokens("l0", 1), sample_of(STORE_BYTES), tokens("l1", 2)]

    built = list(families(mixed))

    assert [family.name for family in built] == ["tierscope_request_tokens", "tierscope_store_bytes"]
    assert [sample.value for sample in built[0].samples] == [1, 2]


def test_histogram_buckets_are_cumulative_on_the_page():
    """Ours count each bucket alone, Prometheus' count all below too."""
    counts = (1, 2, *(0 for _ in LOAD_SECONDS.buckets[2:]), 4)
    sample = Sample(LOAD_SECONDS, (*ENGINE, "l1"), HistogramValue(counts, 9.5))

    page, _ = page_of(lambda: [sample])

    (family,) = (one for one in text_string_to_metric_families(page) if one.name == LOAD_SECONDS.name)
    buckets = {one.labels["le"]: one.value for one in family.samples if one.name.endswith("_bucket")}
    assert [buckets[edge] for edge in ("0.0005", "0.001", "10.0", "+Inf")] == [1, 3, 3, 7]
    assert {one.name[-6:]: one.value for one in family.samples[-2:]} == {"_count": 7, "ds_sum": 9.5}


def test_registering_reads_nothing():
    """The collector is described by the table."""
    reads = []

    registry = CollectorRegistry()
    registry.register(SampleCollector(lambda: reads.append(1) or []))

    assert reads == []


STRANGER = Metric("somebody_elses_total", Kind.COUNTER, (), "Help.", "Why?")
BAD_SAMPLES = {
    "not_in_table": Sample(STRANGER, (), 1),
    "bad_labels": forged(SOURCE_UP, (7,), 1),
    "bad_value": forged(STORE_BYTES, (), "many"),
    "duplicate": tokens("l0", 5),
}


@pytest.mark.parametrize(
    ("reason", "bad"),
    [
        *BAD_SAMPLES.items(),
        ("not_in_table", Sample(Metric(STORE_BYTES.name, Kind.GAUGE, ("x",), "Help.", "Why?"), ("x",), 1)),
        ("bad_labels", forged(SOURCE_UP, ["a list"], 1)),
        ("bad_labels", Sample(SOURCE_UP, ("lone \ud800 surrogate",), 1)),
        ("bad_value", Sample(STORE_BYTES, (), float("nan"))),
        ("bad_value", Sample(STORE_BYTES, (), float("inf"))),
        ("bad_value", tokens("l1", -1)),
        ("bad_value", Sample(LOAD_SECONDS, (*ENGINE, "l1"), HistogramValue((1, 2), 0.5))),
        ("bad_value", forged(LOAD_SECONDS, (*ENGINE, "l1"), 3.0)),
    ],
)
def test_a_bad_sample_is_left_out_counted_and_named(reason, bad, caplog):
    """The others are served; the page itself says how many it lacks, and why."""
    page, collector = page_of(lambda: [tokens("l0", 1), bad, tokens("computed", 2)])

    ours = {labels[-1]: value for (_, labels), value in values_on(page).items()}
    assert ours == {"l0": 1, "computed": 2}
    assert collector.dropped[reason] == 1
    assert f'tierscope_dropped_samples_total{{reason="{reason}"}} 1.0' in page
    assert bad.metric.name in caplog.text


def test_a_failing_read_keeps_what_it_gave_before(caplog):
    """The scrape ends well; the failure is logged with its cause and counted."""

    def read():
        yield tokens("l0", 1)
        raise RuntimeError("the ledger is on fire")

    page, collector = page_of(read)

    assert list(values_on(page).values()) == [1]
    assert collector.dropped["read_failed"] == 1
    assert "the ledger is on fire" in caplog.text


def test_a_fault_in_every_scrape_does_not_fill_the_log(caplog):
    """A hundred times the same fault is logged seven times."""
    registry = CollectorRegistry()
    registry.register(SampleCollector(lambda: [BAD_SAMPLES["not_in_table"]]))

    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            generate_latest(registry)

    assert len(caplog.records) == 7


labels = st.tuples(st.text(max_size=20))
numbers = st.one_of(st.integers(-5, 10**20), st.floats(), st.none(), st.text(max_size=3))


@given(
    samples=st.lists(
        st.builds(
            forged, st.sampled_from([SOURCE_UP, STORE_BYTES, LOAD_SECONDS]), labels | st.just(()), numbers
        ),
        max_size=12,
    )
)
def test_whatever_is_read_a_page_comes_out_and_every_sample_is_accounted_for(samples):
    """Served or counted as left out: nothing else can happen to a sample."""
    served = []
    dropped = Counter()

    for family in families(samples, on_drop=lambda reason, _: dropped.update([reason])):
        served += family.samples

    assert len(served) + dropped.total() == len(samples)


def test_the_server_serves_metrics_and_nothing_else():
    """Any other path is not found."""
    with closing(MetricsServer("127.0.0.1", 0, lambda: [tokens("l0", 42)])) as server:
        found = httpx.get(server.url)
        root = httpx.get(server.url.removesuffix("metrics"))
        posted = httpx.post(server.url)

    assert found.status_code == 200
    assert 'tier="l0"} 42.0' in found.text
    assert root.status_code == 404
    assert posted.status_code == 405


def test_closing_the_server_frees_its_port_and_thread():
    """Another may listen there at once; closing twice does no harm."""
    before = threading.active_count()
    server = MetricsServer("127.0.0.1", 0, list)
    port = int(server.url.split(":")[2].split("/")[0])

    server.close()
    server.close()

    assert threading.active_count() == before
    MetricsServer("127.0.0.1", port, list).close()


def test_an_address_in_use_is_named():
    """What, where, and how to fix it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(BadSettings, match=f"port {port}"):
            MetricsServer("127.0.0.1", port, list)


@pytest.mark.system
def test_promtool_finds_nothing_to_say_about_a_page_with_every_metric(system_binary):
    """Names, kinds and help are as Prometheus' own linter wants them."""
    promtool = system_binary("promtool", package="prometheus")
    page, _ = page_of(lambda: map(sample_of, METRICS))

    check = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False
    )

    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")
