"""Asks an app without a socket, and checks the one shape of its errors."""

from __future__ import annotations

import asyncio

import httpx


class Client:
    """Asks an app without a socket."""

    def __init__(self, app) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def get(self, path: str, **options) -> httpx.Response:
        return self.request("GET", path, **options)

    def request(self, method: str, path: str, **options) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://api") as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())


def assert_problem(response, status: int, what: str) -> dict[str, str]:
    """Every error is {what, where, fix} of its own media type, each part filled in."""
    body = response.json()
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert list(body) == ["what", "where", "fix"]
    assert all(body.values())
    assert what in body["what"]
    return body
