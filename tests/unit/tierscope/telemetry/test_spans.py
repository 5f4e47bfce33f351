"""Records become spans at a real OTLP receiver, and a receiver that is not there hurts nobody."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given

from tests import strategies
from tests.otlp_receiver import OtlpReceiver
from tierscope.domain.errors import BadSettings
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import RequestRecord, RequestStatus, TokenSplit, TraceContext
from tierscope.registry.spans import KV_LOOKUP
from tierscope.telemetry.spans import ATTRIBUTES, SpanSink, attributes_of

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
TRACE = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


@pytest.fixture
def receiver():
    with closing(OtlpReceiver()) as receiver:
        yield receiver


def sink_for(endpoint, **options):
    options = {"schedule_seconds": 0.05, "export_timeout_seconds": 0.5, **options}
    return closing(SpanSink(endpoint, service_name="tierscope-exporter", **options))


def sent(receiver, *records):
    """Send the records and return their spans as received."""
    with sink_for(receiver.endpoint) as sink:
        for record in records:
            sink.emit(record)
    return receiver.spans


def attributes_on(span):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def unused_endpoint():
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1/traces"


def test_a_record_is_one_span_with_the_attributes_of_the_table(receiver):
    """Exactly those that the record knows, with the table's keys and types."""
    (span,) = sent(receiver, RECORD)

    assert span.name == "kv.lookup"
    assert attributes_on(span) == {
        "gen_ai.request.id": "chatcmpl-1",
        "gen_ai.request.model": "llama",
        "tierscope.namespace": "shop",
        "tierscope.endpoint": "chat",
        "tierscope.replica": "pod-0",
        "tierscope.rank": 1,
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


def test_a_span_lasts_from_arrival_to_first_token(receiver):
    """In unix nanoseconds."""
    (span,) = sent(receiver, RECORD)

    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        1_700_000_000_250_000_000,
        1_700_000_001_750_000_000,
    )


def test_a_span_without_a_first_token_ends_at_admission(receiver):
    """An aborted request waited until then."""
    aborted = replace(RECORD, status=RequestStatus.ABORTED, ttft_seconds=None)

    (span,) = sent(receiver, aborted)

    assert span.end_time_unix_nano == 1_700_000_000_500_000_000


def test_a_span_never_ends_before_it_starts(receiver):
    """Clocks of two processes may disagree."""
    skewed = replace(RECORD, admitted_unix_seconds=RECORD.arrived_unix_seconds - 9, ttft_seconds=None)

    (span,) = sent(receiver, skewed)

    assert span.end_time_unix_nano == span.start_time_unix_nano


def test_the_callers_span_is_the_parent(receiver):
    """The request's own trace shows where its prompt came from."""
    (span,) = sent(receiver, replace(RECORD, trace=TRACE))

    assert span.trace_id.hex() == TRACE.trace_id
    assert span.parent_span_id.hex() == TRACE.span_id


def test_without_a_caller_each_span_begins_a_trace_of_its_own(receiver):
    """Nothing is invented to hang them on."""
    first, second = sent(receiver, RECORD, RECORD)

    assert first.parent_span_id == second.parent_span_id == b""
    assert first.trace_id != second.trace_id


@pytest.mark.parametrize("trace", [TraceContext("0" * 32, "0" * 16), TraceContext("not hex", "nor this")])
def test_a_trace_context_that_is_none_is_no_parent(receiver, trace):
    """The span is sent all the same."""
    (span,) = sent(receiver, replace(RECORD, trace=trace))

    assert span.parent_span_id == b""


def test_a_trace_that_is_not_recorded_gets_no_span(receiver):
    """The caller decided; we count it."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(replace(RECORD, trace=replace(TRACE, sampled=False)))

    assert receiver.spans == []
    assert sink.results["not_sampled"] == 1


def test_spans_carry_the_service_they_come_from(receiver):
    """A trace viewer groups by it."""
    sent(receiver, RECORD)

    resource = receiver.requests[0].resource_spans[0].resource
    assert attributes_on(resource)["service.name"] == "tierscope-exporter"
    assert receiver.paths == ["/v1/traces"]


def test_spans_arrive_while_the_sink_is_open(receiver):
    """Nobody has to close it to see them."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(RECORD)

        assert len(receiver.await_spans(1)) == 1


def test_every_attribute_of_the_table_is_made_and_no_other():
    """A row added to the span table without a value is found here."""
    assert tuple(ATTRIBUTES) == KV_LOOKUP.attributes


@given(record=strategies.request_records())
def test_attributes_have_the_types_of_the_table(record):
    """Whatever the record says; absent where it does not say."""
    types = {attribute.key: attribute.value_type for attribute in KV_LOOKUP.attributes}

    for key, value in attributes_of(record).items():
        assert type(value) is types[key]


def test_a_text_that_utf8_cannot_carry_does_not_fail_its_batch(receiver):
    """Its odd characters are replaced, its neighbours arrive."""
    odd, good = sent(receiver, replace(RECORD, model="lone \ud800 surrogate"), RECORD)

    assert attributes_on(odd)["gen_ai.request.model"] == "lone ? surrogate"
    assert attributes_on(good)["gen_ai.request.model"] == "llama"


@pytest.mark.parametrize("arrived", [float("nan"), float("inf"), -5.0])
def test_times_that_make_no_span_are_counted(receiver, arrived):
    """One such record does not fail the batch it would have been in."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(replace(RECORD, arrived_unix_seconds=arrived))
        sink.emit(RECORD)

    assert len(receiver.spans) == 1
    assert sink.results["not_taken"] == 1


def test_an_unreachable_receiver_is_counted_and_nothing_waits():
    """Emitting and closing go on; the queue takes what it can, and every span is accounted for."""
    with sink_for(unused_endpoint(), queue_spans=20) as sink:
        for _ in range(200):
            sink.emit(RECORD)
        sink.close(timeout_seconds=0.2)

    results = sink.results
    assert results["not_taken"] >= 1
    assert results["not_taken"] + results["not_exported"] == sum(results.values()) == 200


def test_a_receiver_that_never_answers_does_not_hold_up_the_end(receiver):
    """Closing gives up on what is in flight and queued, and counts it."""
    receiver.hold = True
    with sink_for(receiver.endpoint, export_timeout_seconds=30) as sink:
        sink.emit(RECORD)
        deadline = time.monotonic() + 20
        while not receiver.paths and time.monotonic() < deadline:
            time.sleep(0.01)
        sink.emit(RECORD)
        sink.close(timeout_seconds=0.2)

    assert sink.results["not_exported"] == 2
    receiver._release.set()


def test_a_receiver_that_refuses_is_counted(receiver):
    """400: trying again would not help."""
    receiver.status = 400

    with sink_for(receiver.endpoint) as sink:
        sink.emit(RECORD)

    assert sink.results["not_exported"] == 1


def test_what_arrived_is_counted_and_made_into_samples(receiver):
    """The exporter's own page says how its spans fare."""
    with sink_for(receiver.endpoint) as sink:
        sink.emit(RECORD)
        sink.emit(RECORD)

    counts = {sample.labels[0]: sample.value for sample in sink.samples()}
    assert counts == {"exported": 2, "not_sampled": 0, "not_taken": 0, "not_exported": 0}


def test_after_closing_spans_are_counted_as_not_taken(receiver):
    """And closing twice does no harm."""
    with sink_for(receiver.endpoint) as sink:
        sink.close()
        sink.emit(RECORD)

    assert sink.results["not_taken"] == 1


def test_without_an_address_nothing_happens():
    """Spans are off: nothing is counted, published or started."""
    sink = SpanSink(None, service_name="tierscope-exporter")

    sink.emit(RECORD)
    sink.close()

    assert list(sink.samples()) == []


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://[::1"])
def test_an_address_that_is_none_is_refused_at_once(endpoint):
    """Not span by span, later, in a log."""
    with pytest.raises(BadSettings, match="4318/v1/traces"):
        SpanSink(endpoint, service_name="tierscope-exporter")
