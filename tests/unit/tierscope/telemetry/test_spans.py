"""Records become spans at a real OTLP receiver, and a receiver that is not there hurts nobody."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace

import pytest

from tests.otlp_receiver import OtlpReceiver, attributes_on
from tests.ports import free_port
from tierscope.domain.errors import BadSettings
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import (
    CacheLookup,
    LateMove,
    RequestRecord,
    RequestStatus,
    TierStore,
    TokenSplit,
    TraceContext,
)
from tierscope.domain.settings import OtlpProtocol
from tierscope.domain.tiers import Tier
from tierscope.telemetry.spans import SpanSink

RECORD = RequestRecord(
    engine=EngineId("shop", "chat", "pod-0", 1),
    model="llama",
    request_id="chatcmpl-1",
    attempt=0,
    status=RequestStatus.SERVED,
    tokens=TokenSplit(100, l0=32, l1=16, computed=52),
    block_tokens=16,
    block_hashes=(1, 2, 3),
    arrived_unix_seconds=1_700_000_000.25,
    admitted_unix_seconds=1_700_000_000.5,
    queue_seconds=0.25,
    ttft_seconds=1.5,
)
LOADED = replace(RECORD, load_seconds=0.5)
TRACE = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
ERROR = 2
"""STATUS_CODE_ERROR of the protocol."""


@pytest.fixture
def sink_for(protocol):
    """Make a sink of the test's protocol, impatient."""

    def make(endpoint, **options):
        options = {"schedule_seconds": 0.05, "export_timeout_seconds": 0.5, **options}
        return closing(SpanSink(endpoint, service_name="svc", protocol=OtlpProtocol(protocol), **options))

    return make


@pytest.fixture
def sent(receiver, sink_for):
    """Send records and return their spans as received."""

    def send(*records):
        with sink_for(receiver.endpoint, export_timeout_seconds=5) as sink:
            for record in records:
                sink.emit(record)
        return receiver.spans

    return send


def unused_endpoint():
    return f"http://127.0.0.1:{free_port()}"


def test_a_record_is_one_span_with_the_attributes_of_the_table(sent):
    """Exactly those that the record knows, with the table's keys and types."""
    (span,) = sent(RECORD)

    assert span.name == "kv.lookup"
    assert attributes_on(span) == {
        "gen_ai.request.id": "chatcmpl-1",
        "gen_ai.request.model": "llama",
        "tierscope.namespace": "shop",
        "tierscope.endpoint": "chat",
        "tierscope.replica": "pod-0",
        "tierscope.rank": 1,
        "tierscope.source": "vllm_hook:shop/chat/pod-0/1",
        "tierscope.status": "served",
        "tierscope.attempt": 0,
        "tierscope.tokens.prompt": 100,
        "tierscope.tokens.l0": 32,
        "tierscope.tokens.l1": 16,
        "tierscope.tokens.l2": 0,
        "tierscope.tokens.external": 0,
        "tierscope.tokens.computed": 52,
        "tierscope.queue_seconds": 0.25,
        "tierscope.ttft_seconds": 1.5,
    }
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        1_700_000_000_250_000_000,
        1_700_000_001_750_000_000,
    )


def test_a_load_is_a_child_of_its_lookup(sent):
    """In the same trace, whether or not there is a caller."""
    load, lookup = sent(LOADED)

    assert (load.name, lookup.name) == ("kv.load", "kv.lookup")
    assert load.parent_span_id == lookup.span_id
    assert load.trace_id == lookup.trace_id


def test_the_callers_span_is_the_parent(sent):
    """The request's own trace shows where its prompt came from."""
    (span,) = sent(replace(RECORD, trace=TRACE))

    assert span.trace_id.hex() == TRACE.trace_id
    assert span.parent_span_id.hex() == TRACE.span_id


def test_children_of_one_request_are_spans_of_their_own(sent):
    """n=2 gives two admissions with the same id and caller: nothing of them is merged."""
    first, second = sent(replace(RECORD, trace=TRACE), replace(RECORD, trace=TRACE))

    assert first.trace_id == second.trace_id
    assert first.parent_span_id == second.parent_span_id
    assert first.span_id != second.span_id


def test_what_is_told_of_a_record_later_is_inside_its_lookup(receiver, sink_for):
    """A child of the span that was sent long ago; of a record without a cache server, or of none, no span."""
    found = replace(RECORD, trace=TRACE, lookup=CacheLookup("node", 1_700_000_000.5, 0, 0))
    other, gone = replace(RECORD, attempt=0, request_id="chatcmpl-2"), ("e", "r", 0, 0.0)
    store = TierStore(Tier.L1, 1_700_000_009.5, 1_700_000_009.25, 2, 4096)

    with sink_for(receiver.endpoint, export_timeout_seconds=5) as sink:
        for record in (found, other):
            sink.emit(record)
        for name in (found.name, other.name, gone):
            sink.emit_late(LateMove(name, "node", store))
        sink.emit_late(LateMove(found.name, "node", replace(store, started_unix_seconds=float("nan"))))

    late = [span for span in receiver.spans if span.name == "kv.l1.store"]
    lookup = next(span for span in receiver.spans if span.trace_id.hex() == TRACE.trace_id)
    assert [(span.trace_id, span.parent_span_id) for span in late] == [(lookup.trace_id, lookup.span_id)]
    assert sink.results["exported"] == 3
    assert sink.results["not_taken"] == 1


def test_what_is_told_later_of_a_trace_that_is_not_recorded_gets_no_span(receiver, sink_for):
    """As its admission got none."""
    unrecorded = replace(TRACE, sampled=False)
    record = replace(RECORD, trace=unrecorded, lookup=CacheLookup("node", 1_700_000_000.5, 0, 0))

    with sink_for(receiver.endpoint) as sink:
        sink.emit(record)
        sink.emit_late(LateMove(record.name, "node", TierStore(Tier.L1, 2e9, 2e9, 1, 1)))

    assert receiver.spans == []


def test_without_a_caller_each_span_begins_a_trace_of_its_own(sent):
    """Nothing is invented to hang them on."""
    first, second = sent(RECORD, RECORD)

    assert first.parent_span_id == second.parent_span_id == b""
    assert first.trace_id != second.trace_id


@pytest.mark.parametrize("trace", [TraceContext("0" * 32, "0" * 16), TraceContext("not hex", "nor this")])
def test_a_trace_context_that_is_none_is_no_parent(sent, trace):
    """The span is sent all the same."""
    (span,) = sent(replace(RECORD, trace=trace))

    assert span.parent_span_id == b""


def test_a_trace_that_is_not_recorded_gets_no_span(receiver, sink_for):
    """The caller decided; we count it."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(replace(LOADED, trace=replace(TRACE, sampled=False)))

    assert receiver.spans == []
    assert sink.results["not_sampled"] == 2


def test_a_request_that_ended_without_a_token_is_an_error(sent):
    """A sampler at the trace's end keeps errors by their status; served requests set none."""
    aborted, served = sent(replace(RECORD, status=RequestStatus.ABORTED, ttft_seconds=None), RECORD)

    assert aborted.status.code == ERROR
    assert aborted.status.message == "the request ended before its first token"
    assert served.status.code == 0


def test_spans_carry_the_service_they_come_from(receiver, sink_for):
    """A trace viewer groups by it."""
    with sink_for(receiver.endpoint, service_instance="node-1") as sink:
        sink.emit(RECORD)

    resource = attributes_on(receiver.requests[0].resource_spans[0].resource)
    assert (resource["service.name"], resource["service.instance.id"]) == ("svc", "node-1")


def test_the_environment_names_the_service(receiver, sink_for, monkeypatch):
    """As everywhere in OpenTelemetry."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=it,deployment=blue")

    with sink_for(receiver.endpoint, service_instance="node-1") as sink:
        sink.emit(RECORD)

    resource = attributes_on(receiver.requests[0].resource_spans[0].resource)
    assert (resource["service.name"], resource["service.instance.id"]) == ("mine", "it")
    assert resource["deployment"] == "blue"


def test_spans_arrive_while_the_sink_is_open(receiver, sink_for):
    """Nobody has to close it to see them."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(RECORD)

        assert len(receiver.await_spans(1)) == 1


def test_a_text_that_utf8_cannot_carry_does_not_fail_its_batch(sent):
    """Its odd characters are replaced, its neighbours arrive."""
    odd, good = sent(replace(RECORD, model="lone \ud800 surrogate"), RECORD)

    assert attributes_on(odd)["gen_ai.request.model"] == "lone ? surrogate"
    assert attributes_on(good)["gen_ai.request.model"] == "llama"


@pytest.mark.parametrize("arrived", [float("nan"), float("inf"), -5.0])
def test_times_that_make_no_span_are_counted(receiver, sink_for, arrived):
    """One such record does not fail the batch it would have been in."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(replace(RECORD, arrived_unix_seconds=arrived))
        sink.emit(RECORD)

    assert len(receiver.spans) == 1
    assert sink.results["not_taken"] == 1


def test_an_unreachable_receiver_is_counted_and_nothing_waits(protocol, sink_for, caplog):
    """Emitting and closing go on; every span is accounted for; the log says it once, and why."""
    endpoint = unused_endpoint() + ("/v1/traces" if protocol == "http" else "")
    with caplog.at_level(logging.INFO), sink_for(endpoint, queue_spans=20) as sink:
        for _ in range(100):
            sink.emit(LOADED)
        sink.close(timeout_seconds=0.2)

    results = sink.results
    assert results["not_taken"] >= 1
    assert results["not_taken"] + results["not_exported"] == sum(results.values()) == 200
    told = [record.getMessage() for record in caplog.records if "closing" not in record.threadName]
    assert len([line for line in told if "spans were not taken by http" in line]) <= 1
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_a_receiver_that_never_answers_does_not_hold_up_the_end(receiver, sink_for):
    """Closing gives up on what is in flight and queued, and counts it."""
    receiver.hold = True
    with sink_for(receiver.endpoint, export_timeout_seconds=30) as sink:
        sink.emit(RECORD)
        assert receiver.wait(lambda: receiver.asked)
        sink.emit(LOADED)
        sink.close(timeout_seconds=0.2)

    assert sink.results["not_exported"] == 3
    receiver.release()


def test_a_receiver_that_refuses_is_counted_and_told(receiver, sink_for, caplog):
    """Trying again would not help; the reason is the receiver's."""
    receiver.refuse = True

    with sink_for(receiver.endpoint) as sink:
        sink.emit(RECORD)

    assert sink.results["not_exported"] == 1
    (line,) = [record.getMessage() for record in caplog.records if "not taken" in record.getMessage()]
    assert line.startswith(f"spans were not taken by {receiver.endpoint} (1 times so far): ")
    assert "400" in line or "INVALID_ARGUMENT" in line


def test_what_arrived_is_counted_and_made_into_samples(receiver, sink_for):
    """The exporter's own page says how its spans fare."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(RECORD)
        sink.emit(LOADED)

    counts = {sample.labels[0]: sample.value for sample in sink.samples()}
    assert counts == {"exported": 3, "not_sampled": 0, "not_taken": 0, "not_exported": 0}


def test_after_closing_spans_are_counted_as_not_taken(receiver, sink_for):
    """And closing twice does no harm."""
    with sink_for(receiver.endpoint) as sink:
        sink.close()
        sink.emit(RECORD)

    assert sink.results["not_taken"] == 1


def test_without_an_address_nothing_happens(sink_for):
    """Spans are off: nothing is counted, published or started."""
    with sink_for(None) as sink:
        sink.emit(RECORD)

    assert list(sink.samples()) == []


@pytest.mark.parametrize(
    "endpoint",
    ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://[::1", "http://h:0/v1/traces"],
)
def test_an_address_that_is_none_is_refused_at_once(sink_for, endpoint):
    """Not span by span, later, in a log."""
    with pytest.raises(BadSettings, match="otlp_endpoint"):
        sink_for(endpoint)


@pytest.mark.parametrize(
    ("protocol", "endpoint", "fix"),
    [
        ("http", "http://127.0.0.1:4318", "4318/v1/traces"),
        ("http", "http://127.0.0.1:4318/", "4318/v1/traces"),
        ("grpc", "http://127.0.0.1:4318/v1/traces", "4317"),
        ("grpc", "http://127.0.0.1", "4317"),
    ],
    ids=["http without path", "http root", "grpc with path", "grpc without port"],
)
def test_an_address_of_the_other_protocol_is_refused(sink_for, endpoint, fix):
    """HTTP needs the path of the signal, gRPC takes none and has no port of its own."""
    with pytest.raises(BadSettings, match=fix):
        sink_for(endpoint)


def test_http_goes_to_the_address_as_it_is_given():
    """Backends put the signals under paths of their own; nothing is added to what was set."""
    with closing(OtlpReceiver()) as receiver:
        endpoint = receiver.endpoint.replace("/v1/traces", "/otlp/v1/traces?tenant=a")
        with closing(SpanSink(endpoint, service_name="svc", export_timeout_seconds=0.5)) as sink:
            sink.emit(RECORD)

    assert receiver.paths == ["/otlp/v1/traces?tenant=a"]
