"""The report at `/` of the API: over what other routes serve, with the policy a browser holds it to."""

from __future__ import annotations

import pytest

from api.app import create_app
from tests import workloads as w
from tests.asking import Client, assert_problem
from tests.reports import WHO, known_store
from tests.stored import StoredInMemory
from tierscope.domain.errors import StoreUnusable

CLOCK = lambda: w.START + 3600.0  # noqa: E731 - a fixed time


@pytest.fixture(scope="module")
def store():
    return known_store()


def client_of(store) -> Client:
    return Client(create_app(store, CLOCK))


def test_the_page_is_the_report_of_the_endpoint_there_is(store):
    """As HTML, with the policy as a header too, so that no proxy's own one is needed."""
    response = client_of(store).get("/")

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "<h1>ns/chat</h1>" in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert response.text.count("No data") == 1  # nobody changed anything yet


def test_another_endpoint_is_asked_for_by_name(store):
    """The page links the others; a name that is none is told in the shape of errors."""
    two = StoredInMemory(
        **vars(store) | {"evidences": {**store.evidences, ("ns", "code"): store.evidences[WHO]}}
    )
    client = client_of(two)

    assert "<h1>ns/code</h1>" in client.get("/?endpoint=ns/code").text
    assert 'href="?endpoint=ns/code"' in client.get("/").text
    assert "ns/chat, ns/code" in assert_problem(client.get("/?endpoint=ns/x"), 404, "no endpoint ns/x")["fix"]
    assert_problem(client.get("/?hours=1000"), 422, "hours")


def test_a_store_that_heard_of_nobody_has_a_page_that_says_so():
    """It is not an error: whoever opens it right after the installation sees what is missing."""
    response = client_of(StoredInMemory()).get("/")

    assert response.status_code == 200
    assert "has heard of no endpoint yet" in response.text


def test_what_the_store_cannot_answer_is_absent_with_its_reason(store):
    """The rest of the page is there."""

    class Partly(StoredInMemory):
        def evidence(self, *_):
            raise StoreUnusable("the hour is damaged", where="requests", fix="restore it")

    text = client_of(Partly(**vars(store))).get("/").text

    assert "What happened to the tokens could not be read: the hour is damaged" in text
    assert "How to apply it" in text


def test_advice_of_another_release_is_absent_with_its_reason(store):
    """A document that cannot be read is no advice, and no failure of the page."""
    odd = StoredInMemory(**vars(store) | {"recommendations": {WHO: b'{"status": "odd"}'}})

    assert "The recommendation could not be read" in client_of(odd).get("/").text
