"""Request records to OTLP spans, as the span table says; whoever emits one never waits for the network."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.requests import RequestRecord, TraceContext
from tierscope.registry import spans as table
from tierscope.registry.metrics import SPANS_BY_RESULT
from tierscope.registry.types import Sample, SpanAttribute

log = logging.getLogger(__name__)

QUEUE_SPANS = 8_192
BATCH_SPANS = 512
SCHEDULE_SECONDS = 1.0
"""How long a span may wait for others to be sent with it."""

EXPORT_TIMEOUT_SECONDS = 5.0
"""Longest time one batch may take, retries included."""

AttributeValue = str | int | float

ATTRIBUTES: Mapping[SpanAttribute, Callable[[RequestRecord], AttributeValue | None]] = {
    table.REQUEST_ID: lambda record: record.request_id,
    table.MODEL: lambda record: record.model,
    table.NAMESPACE: lambda record: record.engine.namespace,
    table.ENDPOINT: lambda record: record.engine.endpoint,
    table.REPLICA: lambda record: record.engine.replica,
    table.RANK: lambda record: record.engine.rank,
    table.STATUS: lambda record: record.status.value,
    table.ATTEMPT: lambda record: record.attempt,
    table.PROMPT_TOKENS: lambda record: record.tokens.prompt,
    table.L0_TOKENS: lambda record: record.tokens.l0,
    table.L1_TOKENS: lambda record: record.tokens.l1,
    table.L2_TOKENS: lambda record: record.tokens.l2,
    table.EXTERNAL_TOKENS: lambda record: record.tokens.external,
    table.COMPUTED_TOKENS: lambda record: record.tokens.computed,
    table.QUEUE_SECONDS: lambda record: record.queue_seconds,
    table.LOAD_WAIT_SECONDS: lambda record: record.load_seconds,
    table.TTFT_SECONDS: lambda record: record.ttft_seconds,
}
"""What each attribute of the span table is, for a record; None leaves it out."""


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
    """Sends one span a record to an OTLP/HTTP address; without an address it does nothing.

    `emit` never waits and never raises: what cannot be sent is counted. A record's trace context is the
    span's parent; without one each span begins a trace of its own. Resource and sampler follow
    OpenTelemetry's own environment variables. Raises `BadSettings` for an address that is none.
    """

    def __init__(
        self,
        otlp_endpoint: str | None,
        *,
        service_name: str,
        queue_spans: int = QUEUE_SPANS,
        schedule_seconds: float = SCHEDULE_SECONDS,
        export_timeout_seconds: float = EXPORT_TIMEOUT_SECONDS,
    ) -> None:
        self._tally = _Tally(queue_spans)
        self._provider: TracerProvider | None = None
        if otlp_endpoint is None:
            return
        _check_address(otlp_endpoint)
        inner = OTLPSpanExporter(endpoint=otlp_endpoint, timeout=export_timeout_seconds)
        self._exporter = _CountingExporter(inner, self._tally)
        self._provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: service_name}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter,
                max_queue_size=queue_spans,
                max_export_batch_size=min(BATCH_SPANS, queue_spans),
                schedule_delay_millis=schedule_seconds * 1000,
            )
        )
        self._tracer = self._provider.get_tracer("tierscope")

    def emit(self, record: RequestRecord) -> None:
        """Queue the span of one record."""
        if self._provider is None or not self._tally.take():
            return
        try:
            start_ns, end_ns = _times_ns(record)
            span = self._tracer.start_span(
                table.KV_LOOKUP.name,
                context=_parent(record.trace),
                attributes=attributes_of(record),
                start_time=start_ns,
            )
        except (ValueError, OverflowError) as error:
            self._tally.settle(SpanResult.NOT_TAKEN, 1)
            log.debug("request %s makes no span: %s", record.request_id, error)
            return
        if not span.is_recording():
            self._tally.settle(SpanResult.NOT_SAMPLED, 1)
        span.end(end_ns)

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


def attributes_of(record: RequestRecord) -> dict[str, AttributeValue]:
    """Return the attributes of a record's span; what the record does not know is absent."""
    values = ((attribute.key, value_of(record)) for attribute, value_of in ATTRIBUTES.items())
    return {key: _writable(value) for key, value in values if value is not None}


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

    def take(self) -> bool:
        """Count one more span in, if there is room."""
        with self._lock:
            taken = not self._closed and self._unsettled < self._queue_spans
            if taken:
                self._unsettled += 1
            else:
                self._results[SpanResult.NOT_TAKEN] += 1
            return taken

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

    def __init__(self, inner: SpanExporter, tally: _Tally) -> None:
        self._inner = inner
        self._tally = tally
        self._given_up = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            if not self._given_up.is_set():
                result = self._inner.export(spans)
        finally:
            sent = result is SpanExportResult.SUCCESS
            self._tally.settle(SpanResult.EXPORTED if sent else SpanResult.NOT_EXPORTED, len(spans))
        return result

    def give_up(self) -> None:
        """Let every further batch fail at once, and wake the one that waits to be tried again."""
        if not self._given_up.is_set():
            self._given_up.set()
            self._inner.shutdown()

    def shutdown(self) -> None:
        self.give_up()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _check_address(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        problem = TierscopeError(
            f"spans cannot be sent to {endpoint!r}",
            where="otlp_endpoint",
            fix="give the full OTLP/HTTP address, e.g. http://127.0.0.1:4318/v1/traces",
        )
        raise BadSettings([problem])


def _times_ns(record: RequestRecord) -> tuple[int, int]:
    """Start and end: arrival, and first token or else admission; raises ValueError where there are none."""
    end_seconds = record.admitted_unix_seconds
    if record.ttft_seconds is not None:
        end_seconds = record.arrived_unix_seconds + record.ttft_seconds
    start_ns, end_ns = _unix_ns(record.arrived_unix_seconds), _unix_ns(end_seconds)
    if not 0 <= start_ns < 1 << 63:
        raise ValueError(f"{record.arrived_unix_seconds} is no unix time")
    return start_ns, min(max(start_ns, end_ns), (1 << 63) - 1)


def _unix_ns(unix_seconds: float) -> int:
    """Nanoseconds, of which a float of today's unix time knows the microseconds."""
    return round(unix_seconds * 1e6) * 1000


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


def _writable(value: AttributeValue) -> AttributeValue:
    """Replace what UTF-8 cannot carry: one such text would fail its whole batch."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
