"""Request records to OTLP spans, as the span table says; whoever emits one never waits for the network."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from tierscope.domain.requests import AdmissionName, LateMove, RequestRecord, TraceContext
from tierscope.domain.settings import OtlpProtocol
from tierscope.registry.metrics import SPANS_BY_RESULT
from tierscope.registry.types import Sample
from tierscope.telemetry.delivery import Delivery
from tierscope.telemetry.otlp import EXPORT_TIMEOUT_SECONDS, SCOPE, resource_of, span_exporter
from tierscope.telemetry.request_spans import PlannedSpan, move_spans, spans_of

log = logging.getLogger(__name__)

QUEUE_SPANS = 8_192
BATCH_SPANS = 512
MOST_ADMISSIONS = 20_000
"""Admissions whose spans are remembered for what a cache server tells of them later."""

SCHEDULE_SECONDS = 1.0
"""How long a span may wait for others to be sent with it."""


class SpanResult(StrEnum):
    """What became of a span."""

    EXPORTED = "exported"
    NOT_SAMPLED = "not_sampled"
    """Its caller's trace is not recorded, or the sampler set by the environment left it out."""
    NOT_TAKEN = "not_taken"
    """The queue was full or the sink closed, or its times make no span."""
    NOT_EXPORTED = "not_exported"
    """Its receiver did not take it, or was too slow when the sink closed."""


class SpanSink:
    """Sends the spans of records to an OTLP address; without an address it does nothing.

    `emit` never waits and never raises: what cannot be sent is counted. The caller's span is the parent
    of `kv.lookup`; without one each begins a trace of its own. Resource and sampler follow
    OpenTelemetry's own environment variables. Raises `BadSettings` for an address that does not fit the
    protocol.
    """

    def __init__(
        self,
        otlp_endpoint: str | None,
        *,
        service_name: str,
        service_instance: str | None = None,
        protocol: OtlpProtocol = OtlpProtocol.HTTP,
        queue_spans: int = QUEUE_SPANS,
        schedule_seconds: float = SCHEDULE_SECONDS,
        export_timeout_seconds: float = EXPORT_TIMEOUT_SECONDS,
    ) -> None:
        self._tally = _Tally(queue_spans)
        self._provider: TracerProvider | None = None
        self._admissions: dict[AdmissionName, SpanContext] = {}
        if otlp_endpoint is None:
            return
        inner = span_exporter(otlp_endpoint, protocol, timeout_seconds=export_timeout_seconds)
        self._exporter = _CountingExporter(inner, self._tally, Delivery("spans", otlp_endpoint))
        self._provider = TracerProvider(
            resource=resource_of(service_name, service_instance), shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter,
                max_queue_size=queue_spans,
                max_export_batch_size=min(BATCH_SPANS, queue_spans),
                schedule_delay_millis=schedule_seconds * 1000,
            )
        )
        self._tracer = self._provider.get_tracer(SCOPE)

    def emit(self, record: RequestRecord) -> None:
        """Queue the spans of one record."""
        if self._provider is None:
            return
        try:
            lookup, *inside = spans_of(record)
        except (ValueError, OverflowError) as error:
            self._tally.refuse(1)
            log.debug("request %s makes no span: %s", record.request_id, error)
            return
        if not self._tally.take(1 + len(inside)):
            return
        span = self._start(lookup, _parent(record.trace))
        for planned in inside:
            self._start(planned, set_span_in_context(span, Context())).end(planned.end_ns)
        span.end(lookup.end_ns)
        if record.lookup is not None:
            self._admissions[record.name] = span.get_span_context()
            if len(self._admissions) > MOST_ADMISSIONS:
                del self._admissions[next(iter(self._admissions))]

    def emit_late(self, late: LateMove) -> None:
        """Queue the span of what a cache server told after its admission; none for one that is unknown.

        It is called by the thread that calls `emit`.
        """
        context = self._admissions.get(late.admission)
        if context is None:
            return
        try:
            planned = list(move_spans(late.server, late.move))
        except (ValueError, OverflowError) as error:
            self._tally.refuse(1)
            log.debug("%s makes no span: %s", late, error)
            return
        if self._tally.take(len(planned)):
            for each in planned:
                parent = set_span_in_context(NonRecordingSpan(context), Context())
                self._start(each, parent).end(each.end_ns)

    def _start(self, planned: PlannedSpan, parent: Context) -> Span:
        """Begin a span with all that is known of it, so that nothing about it changes later."""
        span = self._tracer.start_span(
            planned.name, context=parent, attributes=planned.attributes, start_time=planned.start_ns
        )
        if planned.error is not None:
            span.set_status(Status(StatusCode.ERROR, planned.error))
        if not span.is_recording():
            self._tally.settle(SpanResult.NOT_SAMPLED, 1)
        return span

    @property
    def results(self) -> Mapping[SpanResult, int]:
        """How many spans came to which end so far."""
        return self._tally.results

    def samples(self) -> Iterator[Sample]:
        """Yield the counts of `results`; nothing without an address."""
        if self._provider is not None:
            for result, count in self.results.items():
                yield Sample(SPANS_BY_RESULT, (result.value,), count)

    def close(self, timeout_seconds: float = 3.0) -> None:
        """Send what is queued for at most `timeout_seconds`, then let go; calling it again does nothing."""
        if self._provider is None or not self._tally.close():
            return
        # The library's own shutdown may wait for every queued batch to time out.
        closing = threading.Thread(target=self._provider.shutdown, name="closing spans", daemon=True)
        closing.start()
        closing.join(timeout_seconds)
        if closing.is_alive():
            log.warning("spans were not taken in time and are dropped")
            self._exporter.give_up()
            closing.join(0.5)
        self._tally.settle_rest()


class _Tally:
    """Counts of spans; those taken and not yet settled never outnumber the queue."""

    def __init__(self, queue_spans: int) -> None:
        self._lock = threading.Lock()
        self._queue_spans = queue_spans
        self._unsettled = 0
        self._closed = False
        self._results = Counter(dict.fromkeys(SpanResult, 0))

    @property
    def results(self) -> Mapping[SpanResult, int]:
        with self._lock:
            return dict(self._results)

    def take(self, count: int) -> bool:
        """Count so many more spans in, if there is room for all of them."""
        with self._lock:
            taken = not self._closed and self._unsettled + count <= self._queue_spans
            if taken:
                self._unsettled += count
            else:
                self._results[SpanResult.NOT_TAKEN] += count
            return taken

    def refuse(self, count: int) -> None:
        """Count spans that were never taken in."""
        with self._lock:
            self._results[SpanResult.NOT_TAKEN] += count

    def settle(self, result: SpanResult, count: int) -> None:
        """Count spans that came to their end."""
        with self._lock:
            settled = min(count, self._unsettled)  # the rest was settled when the sink closed
            self._unsettled -= settled
            self._results[result] += settled

    def close(self) -> bool:
        """Take no more; False if that was so already."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            return was_open

    def settle_rest(self) -> None:
        """Give up what is left."""
        with self._lock:
            self._results[SpanResult.NOT_EXPORTED] += self._unsettled
            self._unsettled = 0


class _CountingExporter(SpanExporter):
    """Counts what the exporter inside made of its batches."""

    def __init__(self, inner: SpanExporter, tally: _Tally, delivery: Delivery) -> None:
        self._inner = inner
        self._tally = tally
        self._delivery = delivery
        self._given_up = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        sent = not self._given_up.is_set() and self._delivery.attempt(
            lambda: self._inner.export(spans) is SpanExportResult.SUCCESS
        )
        self._tally.settle(SpanResult.EXPORTED if sent else SpanResult.NOT_EXPORTED, len(spans))
        return SpanExportResult.SUCCESS if sent else SpanExportResult.FAILURE

    def give_up(self) -> None:
        """Let every further batch fail at once, and wake the one that waits to be tried again."""
        if not self._given_up.is_set():
            self._given_up.set()
            self._inner.shutdown()

    def shutdown(self) -> None:
        self.give_up()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _parent(trace: TraceContext | None) -> Context:
    """Return a context whose span is the caller's; ids that are none leave the context empty."""
    if trace is None:
        return Context()
    try:
        trace_id, span_id = int(trace.trace_id, 16), int(trace.span_id, 16)
    except ValueError:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    caller = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(caller), Context())
