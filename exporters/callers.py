"""Who asked: the caller's trace context, from a request's headers or from its id."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tierscope.domain.requests import TraceContext

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""W3C trace context: https://www.w3.org/TR/trace-context/#traceparent-header."""

_TRACEPARENT_IN_ID = re.compile(rf"(?<![0-9a-f])(?=00-){_TRACEPARENT.pattern}(?![0-9a-f])")
"""In an id only the version that exists counts: fewer digits look like one by chance."""

_SAMPLED = 1


def trace_context(headers: Mapping[str, str] | None, request_id: str) -> TraceContext | None:
    """Return the context that `traceparent` names, else the one in the request id, else None.

    An engine whose own tracing is off drops the header and keeps the id it was given as X-Request-Id, so a
    caller that sends its traceparent there too is known either way.
    """
    found = _TRACEPARENT.fullmatch((headers or {}).get("traceparent", ""))
    return _valid(found) or _valid(_TRACEPARENT_IN_ID.search(request_id))


def _valid(found: re.Match[str] | None) -> TraceContext | None:
    """None where nothing was found, and for the ids of zeros that W3C calls invalid."""
    if found is None or not int(found[1], 16) or not int(found[2], 16):
        return None
    return TraceContext(found[1], found[2], sampled=bool(int(found[3], 16) & _SAMPLED))
