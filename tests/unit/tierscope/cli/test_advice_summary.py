"""The summary says the same as the document, in words."""

from __future__ import annotations

import io

from rich.console import Console

from tests import workloads as w
from tierscope.advice.document import parse_recommendation
from tierscope.advice.recommend import recommend
from tierscope.cli.advice_summary import summary


def text_of(evidence, deployment) -> str:
    document = recommend(evidence, deployment, now_unix_seconds=w.NOW)
    page = io.StringIO()
    Console(width=200, file=page).print(summary(document))
    return " ".join(page.getvalue().split())


def test_an_abstention_says_what_is_missing_and_for_how_long():
    """Have, need and wait, side by side."""
    deployment = w.deployment(80 * w.CHUNK_BYTES)
    text = text_of(w.served(w.window(w.cycle(10, 100), seconds=600.0), deployment), deployment)

    assert "no advice" in text
    assert "requests in the window │ 100 │ 300 │ 1188.0 s" in text
    assert "info: The window holds too little traffic" in text


def test_no_change_is_said_plainly():
    """One line, and what it rests on."""
    deployment = w.deployment(160 * w.CHUNK_BYTES)
    text = text_of(w.served(w.window(w.cycle(40, 1000)), deployment), deployment)

    assert "ns/chat: no change" in text
    assert "rests on 1,000 requests, 16,000 block accesses" in text


def test_a_document_reads_back_as_it_was_written():
    """What a store or an API hands over can be shown as if it had just been computed."""
    deployment = w.deployment(80 * w.CHUNK_BYTES)
    document = recommend(
        w.served(w.window(w.cycle(40, 1000)), deployment), deployment, now_unix_seconds=w.NOW
    )

    assert parse_recommendation(document.to_json()) == document
