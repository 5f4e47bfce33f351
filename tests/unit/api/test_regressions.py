"""The API's regressions: judged from the store, in the words of the command."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import httpx
import pytest

from api.app import create_app
from tests.stored_requests import StoredRequests

NOW = 4000.0


class Client:
    """Asks an app as a program would."""

    def __init__(self) -> None:
        app = create_app(StoredRequests(slow_from=3000.0), lambda: NOW)
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def get(self, path: str, **options) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://api") as client:
                return await client.get(path, **options)

        return asyncio.run(ask())


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_regression_that_goes_on_is_told_with_cause_and_sentence(client):
    """Held against what came before the moment asked for."""
    body = client.get("/v1/regressions/ns/chat", params={"since": 2500}).json()

    assert (body["state"], body["severity"]) == ("raised", "critical")
    (found,) = body["regressions"]
    assert found["cause"] == "engine"
    assert abs(found["since_unix_seconds"] - 3000) < 60
    assert "ns/chat" in found["sentence"]


def test_too_short_a_past_is_said(client):
    """Nobody guesses from a handful of requests."""
    body = client.get("/v1/regressions/ns/chat", params={"since": 2500, "learn_seconds": 100}).json()

    assert (body["state"], body["baseline_requests"], body["regressions"]) == ("not_judged", 100, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [("ns/other", HTTPStatus.NOT_FOUND), ("ns/chat?since=5000", HTTPStatus.BAD_REQUEST)],
)
def test_what_is_not_there_is_said(client, path, status):
    """An endpoint nobody knows, a moment to come."""
    assert client.get(f"/v1/regressions/{path}").status_code == status
