"""The caller of a request, from its headers or from its id."""

from __future__ import annotations

import pytest

from exporters.callers import trace_context
from tierscope.domain.requests import TraceContext

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
CALLER = TraceContext(TRACE_ID, SPAN_ID)


def test_the_header_names_the_caller():
    """Any version of the header is read as far as it is known."""
    assert trace_context({"traceparent": TRACEPARENT}, "chatcmpl-1") == CALLER
    assert trace_context({"traceparent": TRACEPARENT.replace("00-", "cc-", 1)}, "chatcmpl-1") == CALLER


@pytest.mark.parametrize("flags", ["00", "02"])
def test_a_caller_that_does_not_record_says_so(flags):
    """The lowest bit of the flags is the decision; the others are not about it."""
    headers = {"traceparent": f"{TRACEPARENT[:-2]}{flags}"}

    assert trace_context(headers, "chatcmpl-1") == TraceContext(TRACE_ID, SPAN_ID, sampled=False)


@pytest.mark.parametrize(
    "request_id",
    [f"chatcmpl-{TRACEPARENT}-90bd4d50", f"0_cmpl-{TRACEPARENT}-0-85106666", f"cmpl-{TRACEPARENT}-0"],
)
def test_a_request_id_that_is_a_traceparent_names_the_caller(request_id):
    """As the engine wraps it: child number, kind, index of the prompt and random suffix around it."""
    assert trace_context(None, request_id) == CALLER


def test_the_header_wins_over_the_id():
    """The id may be that of a gateway further out."""
    other = TRACEPARENT.replace("b7ad", "b7ae")

    assert trace_context({"traceparent": TRACEPARENT}, f"chatcmpl-{other}") == CALLER


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        f"00-{'G' * 32}-{'1' * 16}-01",
    ],
)
def test_a_context_that_is_none_is_absent(traceparent):
    """A broken one does not break the record, wherever it stands."""
    assert trace_context({"traceparent": traceparent}, "chatcmpl-1") is None
    assert trace_context(None, f"chatcmpl-{traceparent}") is None


@pytest.mark.parametrize(
    "request_id",
    [
        "chatcmpl-8c5ffd0c-39b2-4aa1-a2ba-7b3dcf8a9b1d-90bd4d50",
        f"chatcmpl-f{TRACEPARENT}",
        f"chatcmpl-{TRACEPARENT}f",
        f"chatcmpl-01{TRACEPARENT[2:]}",
    ],
    ids=["a UUID", "digits before", "digits after", "another version"],
)
def test_an_id_that_only_looks_like_one_names_nobody(request_id):
    """Nothing is hung on a stranger's span by chance."""
    assert trace_context({}, request_id) is None
