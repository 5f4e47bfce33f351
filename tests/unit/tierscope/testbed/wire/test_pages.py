"""The pages' server: paths, addresses, and faults that end."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from contextlib import closing, suppress

import pytest

from tierscope.testbed.config import Faults
from tierscope.testbed.wire.pages import Answer, PageServer

PATIENCE_SECONDS = 120.0


@pytest.fixture
def server():
    """Two sites; the second one never answers."""
    faults = Faults(hung_pages=frozenset({"silent"}))
    sites = {
        "loud": {"/metrics": lambda: Answer("text/plain", b"up 1\n")},
        "silent": {"/metrics": lambda: Answer("text/plain", b"up 0\n")},
    }
    with closing(PageServer(sites, faults=lambda: faults)) as found:
        yield found


def test_a_page_is_served_with_its_type_and_length(server):
    """A reader gets the body, what it is, and how long it is; a query string changes nothing."""
    with urllib.request.urlopen(server.url("loud") + "/metrics?x=1", timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["Content-Type"] == "text/plain"
        assert answer.headers["Content-Length"] == "5"
        assert answer.read() == b"up 1\n"


def test_an_unknown_path_is_not_found(server):
    """What is no page is answered as such."""
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        urllib.request.urlopen(server.url("loud") + "/nothing", timeout=PATIENCE_SECONDS)

    caught.value.close()


def test_closing_lets_a_waiting_reader_go(server):
    """A reader of a hung page is cut off when the server closes, and holds nothing up."""
    host, _, port = server.url("silent").removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as reader:
        reader.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")

        server.close()

        # Whether the server had begun to read decides how the end looks.
        with suppress(ConnectionResetError):
            assert reader.recv(100) == b""
