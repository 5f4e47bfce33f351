"""`tierscope report` writes one file, from a store or from a running API."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tests import workloads as w
from tests.page_server import PageServer
from tests.reports import known_store
from tests.unit.tierscope.cli.test_recommend import admission
from tierscope.cli.main import app
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.errors import BadInput, SourceUnreadable, TierscopeError
from tierscope.storage.store import Store


def run(*arguments: object) -> TierscopeError | int:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, TierscopeError | SystemExit):
        raise result.exception
    return result.exception if isinstance(result.exception, TierscopeError) else result.exit_code


@pytest.fixture
def store(tmp_path):
    """Ten minutes of requests, long ago, and advice on them."""
    path = tmp_path / "store.duckdb"
    store = Store.open(path, clock=lambda: w.NOW)
    entries = (*map(admission, range(600)), w.coverage(600))
    store.append(FeedBatch(FeedPosition("node-1", 1, 0), w.START + 600, entries))
    ((who, document),) = known_store().recommendations.items()
    store.save_recommendation(
        *who, status=json.loads(document)["status"], document=document, at_unix_seconds=w.NOW
    )
    store.close()
    return path


def test_a_store_gives_one_file_about_its_last_hour(store, tmp_path):
    """Up to its last request, however long ago; with Plotly's script in it."""
    page = tmp_path / "page.html"

    assert run("--store", store, "--html", page) == 0
    text = page.read_text("utf-8")
    assert "<h1>ns/chat</h1>" in text
    assert "in 600 requests" in text
    assert "plotly.js v" in text
    assert "Change L1 from" in text


def test_an_api_gives_its_own_page(tmp_path):
    """The page at `/`, for the endpoint and hours that are asked for; its errors in its own words."""
    server = PageServer({"/?hours=2&endpoint=ns%2Fchat": b"<!doctype html>page"})
    try:
        asked = ("--url", server.url, "--html", tmp_path / "page.html", "--hours", 2, "--endpoint")
        assert run(*asked, "ns/chat") == 0
        refused = run(*asked, "ns/other")
    finally:
        server.close()

    assert (tmp_path / "page.html").read_text("utf-8") == "<!doctype html>page"
    assert isinstance(refused, BadInput | SourceUnreadable)


def test_wrong_usage_and_a_file_that_cannot_be_written_are_told(store, tmp_path):
    """One source, and a folder that is there."""
    assert run("--html", tmp_path / "page.html") == 2
    error = run("--store", store, "--html", tmp_path / "no" / "page.html")

    assert isinstance(error, BadInput)
    assert "cannot be written" in error.what
