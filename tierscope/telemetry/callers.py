"""Whose span a request's spans hang on: the caller's, as the engine or the request id tells it."""

from __future__ import annotations

import re

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tierscope.domain.requests import RequestRecord, TraceContext

_TRACEPARENT = re.compile(r"(?<![0-9a-f])00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?![0-9a-f])")
"""W3C trace context, version 00; https://www.w3.org/TR/trace-context/#traceparent-header."""


def context_of_caller(record: RequestRecord) -> Context:
    """Return a context in which the caller's span is the parent; an empty one where nothing tells it.

    An engine whose own tracing is off drops the trace context, but keeps the request id it was given: a
    caller that sends its traceparent as the id is known by that.
    """
    trace = record.trace or _in_request_id(record.request_id)
    if trace is None:
        return Context()
    try:
        trace_id, span_id = int(trace.trace_id, 16), int(trace.span_id, 16)
    except ValueError:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    caller = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(caller), Context())


def _in_request_id(request_id: str) -> TraceContext | None:
    found = _TRACEPARENT.search(request_id)
    if found is None:
        return None
    return TraceContext(found[1], found[2], sampled=bool(int(found[3], 16) & TraceFlags.SAMPLED))
