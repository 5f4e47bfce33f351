"""Pages over HTTP: whole, in time, or refused by name."""

from __future__ import annotations

from contextlib import closing

import pytest

from exporters import fetch
from exporters.fetch import Fetcher
from tests.page_server import PageServer
from tests.ports import free_port
from tierscope.domain.errors import SourceUnreadable


@pytest.fixture
def server():
    with PageServer({"/metrics": b"a 1\n"}) as server:
        yield server


@pytest.fixture
def fetcher():
    with closing(Fetcher(0.3)) as fetcher:
        yield fetcher


def refusal(fetcher, url):
    with pytest.raises(SourceUnreadable) as caught:
        fetcher.get(url)
    assert url in caught.value.where
    return caught.value.what


def test_a_page_is_returned_as_it_is(server, fetcher):
    """The body, byte for byte, as often as asked."""
    assert fetcher.get(f"{server.url}/metrics") == b"a 1\n"
    assert fetcher.get(f"{server.url}/metrics") == b"a 1\n"


def test_an_answer_that_is_no_page_is_refused(server, fetcher):
    """Only a 200 is a page."""
    assert "404" in refusal(fetcher, f"{server.url}/nothing")


def test_a_server_that_never_answers_is_given_up(server, fetcher):
    """It accepts the connection and says nothing."""
    server.hung.add("/metrics")

    assert "in time" in refusal(fetcher, f"{server.url}/metrics")


def test_a_server_that_drips_is_given_up(server, fetcher):
    """Each byte comes soon enough, the whole does not: the deadline is the whole's."""
    server.pages["/metrics"] = b"x" * 1000
    server.dripping.add("/metrics")

    assert "in time" in refusal(fetcher, f"{server.url}/metrics")


def test_an_answer_without_end_is_given_up(server, fetcher, monkeypatch):
    """Memory is bounded, whoever answers."""
    monkeypatch.setattr(fetch, "MOST_BYTES", 100)
    server.pages["/metrics"] = b"x" * 101

    assert "larger than 100" in refusal(fetcher, f"{server.url}/metrics")


def test_nobody_there_is_said_so(fetcher):
    """A refused connection names the address."""
    refusal(fetcher, f"http://127.0.0.1:{free_port()}/metrics")


@pytest.mark.parametrize("url", ["nonsense", "ftp://host/x", "http://", "http://[::1/metrics"])
def test_an_address_that_is_none_is_refused_and_not_raised_through(fetcher, url):
    """A wrong setting costs its own source."""
    refusal(fetcher, url)
