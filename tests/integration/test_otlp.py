"""A running exporter at a real OTLP receiver, over both transports: whose spans, which values."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import msgspec
import pytest
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import SpanKind, set_span_in_context

from exporters.process import Exporter
from tests.captured import ENGINE_SETTINGS, hook_payloads
from tests.exporting import Scrape, await_true
from tests.otlp_receiver import RECEIVERS, attributes_on, tracer_to
from tierscope.domain.settings import ExporterSettings, OtlpProtocol
from tierscope.registry import metrics

PARTS = ("l0", "l1", "l2", "external", "computed")


@pytest.fixture(params=RECEIVERS)
def protocol(request):
    return OtlpProtocol(request.param)


@pytest.fixture
def receiver(protocol, opened):
    return opened.enter_context(closing(RECEIVERS[protocol]()))


@pytest.fixture
def exporter(opened, publisher, receiver, protocol, tmp_path):
    """Reads the hook of one engine and sends all it has to the receiver."""
    engine = replace(
        ENGINE_SETTINGS, hook_endpoint=publisher.endpoint, hook_replay_endpoint=publisher.replay_endpoint
    )
    settings = ExporterSettings(
        name="node-1",
        engines=(engine,),
        otlp_endpoint=receiver.endpoint,
        otlp_metrics_endpoint=receiver.metrics_endpoint,
        otlp_protocol=protocol,
        otlp_interval_seconds=3600,
        page_state_file=str(tmp_path / "page.json"),
    )
    return opened.enter_context(Exporter(settings))


@pytest.fixture
def tracer_of(opened, receiver, protocol):
    """A service of somebody else's, which sends its spans to the same receiver."""
    return lambda service: opened.enter_context(tracer_to(receiver, protocol, service))


def hook_records(arrival, trace):
    """One request from admission to first token: 100 tokens, of which 48 are loaded from two tiers."""
    rid = "chatcmpl-q1-90bd4d50"
    tokens = {"prompt": 100, "local": 32, "external": 48, "split": {"host": 16, "disk": 32}}
    return [
        {"t": "admit", "ts": arrival + 0.01, "rid": rid, "arrival": arrival, "trace": trace, **tokens},
        {"t": "loaded", "ts": arrival + 0.05, "rid": rid, "wait_s": 0.04},
        {"t": "first", "ts": arrival + 0.2, "rid": rid, "ttft_s": 0.2},
    ]


def test_one_request_is_one_trace_from_the_caller_to_the_tiers(exporter, publisher, receiver, tracer_of):
    """The engine's span and ours are the caller's children; the load is ours; tokens sum up. UD-56."""
    with tracer_of("shop").start_as_current_span("answer a customer", kind=SpanKind.CLIENT) as caller:
        headers: dict[str, str] = {}
        inject(headers, set_span_in_context(caller))
        tracer_of("vllm").start_span("llm_request", extract(headers), kind=SpanKind.SERVER).end()
        publisher.publish(msgspec.msgpack.encode(hook_records(time.time(), headers)))

    spans = {span.name: span for span in receiver.await_spans(4)}

    tree = {name: span.parent_span_id for name, span in spans.items()}
    root = spans["answer a customer"].span_id
    assert tree == {
        "answer a customer": b"",
        "llm_request": root,
        "kv.lookup": root,
        "kv.load": spans["kv.lookup"].span_id,
    }
    assert len({span.trace_id for span in spans.values()}) == 1
    assert {name: receiver.services[span.span_id] for name, span in spans.items()} == {
        "answer a customer": "shop",
        "llm_request": "vllm",
        "kv.lookup": "tierscope-exporter",
        "kv.load": "tierscope-exporter",
    }
    told = attributes_on(spans["kv.lookup"])
    assert [told[f"tierscope.tokens.{part}"] for part in PARTS] == [32, 16, 32, 0, 20]
    assert told["tierscope.tokens.prompt"] == 100
    assert attributes_on(spans["kv.load"])["tierscope.load.tokens"] == 48


def test_every_admission_of_a_real_run_hangs_on_its_caller(captures, exporter, publisher, receiver):
    """n=2 gives two spans in one trace, a re-admission one more; the sum is the engine's own counter."""
    for payload in hook_payloads(captures / "observer" / "a_alone"):
        publisher.publish(payload)

    spans = [(span, attributes_on(span)) for span in receiver.await_spans(44)]

    assert len({span.span_id for span, _ in spans}) == len(spans) == 44
    assert all(span.parent_span_id for span, _ in spans)
    assert len({span.trace_id for span, _ in spans}) == 39
    served = [told for _, told in spans if told["tierscope.status"] == "served"]
    assert len({told["gen_ai.request.id"] for told in served}) == 39
    assert sum(told["tierscope.tokens.prompt"] for told in served) == 15_976
    assert sum(told[f"tierscope.tokens.{part}"] for told in served for part in PARTS) == 15_976


def test_a_run_without_trace_contexts_gives_traces_of_one_admission(captures, exporter, publisher, receiver):
    """The engine's tracing was off and no id named a caller: each load is still with its lookup."""
    for payload in hook_payloads(captures / "observer" / "b_offloading"):
        publisher.publish(payload)

    spans = receiver.await_spans(54)

    lookups = {span.span_id: span for span in spans if span.name == "kv.lookup"}
    loads = [span for span in spans if span.name == "kv.load"]
    assert (len(lookups), len(loads)) == (46, 8)
    assert len({span.trace_id for span in lookups.values()}) == 46
    for load in loads:
        lookup = lookups[load.parent_span_id]
        assert lookup.start_time_unix_nano <= load.start_time_unix_nano
        assert load.end_time_unix_nano <= lookup.end_time_unix_nano


def test_the_last_push_has_what_the_page_had(captures, exporter, publisher, receiver):
    """Every token and every span that was counted before the exporter was closed."""
    for payload in hook_payloads(captures / "observer" / "b_offloading"):
        publisher.publish(payload)
    receiver.await_spans(54)
    page = Scrape(exporter.addresses.metrics_url)
    exporter.close()

    await_true(lambda: receiver.pushes, "the last push arrived")

    pushed = {
        metric.name: metric for metric in receiver.pushes[-1].resource_metrics[0].scope_metrics[0].metrics
    }
    for row in (metrics.REQUEST_TOKENS, metrics.REQUESTS):
        points = pushed[row.name].sum.data_points
        labels = tuple(sorted(row.labels))
        found = {tuple(attributes_on(point)[label] for label in labels): point.as_double for point in points}
        assert found == page.sums(row, *labels)
    spans = {
        attributes_on(point)["result"]: point.as_double
        for point in pushed[metrics.SPANS_BY_RESULT.name].sum.data_points
    }
    assert spans["exported"] == 54
    resource = attributes_on(receiver.pushes[-1].resource_metrics[0].resource)
    assert (resource["service.name"], resource["service.instance.id"]) == ("tierscope-exporter", "node-1")
