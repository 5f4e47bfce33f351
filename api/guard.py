"""What stands before every route: who asks, how much, how many at once, and for how long."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from api.access import Access, Scope, scope_of
from api.problems import problem
from tierscope.domain.errors import TierscopeError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Send
    from starlette.types import Scope as Connection

log = logging.getLogger(__name__)


class Limits:
    """How much one request, and all of them together, may take."""

    def __init__(self, *, body_bytes: int = 65_536, requests: int = 64, body_seconds: float = 10.0) -> None:
        self.body_bytes = body_bytes
        self.requests = requests
        self.body_seconds = body_seconds


class Guard:
    """Refuses requests before the app sees them; health and readiness are always answered.

    `access` None: everybody may ask everything, which is for loopback alone.
    """

    def __init__(self, app: ASGIApp, access: Access | None, limits: Limits) -> None:
        self._app = app
        self._access = access
        self._limits = limits
        self._running = 0

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer what is wrong with it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        if refusal is not None:
            status, error = refusal
            response = problem(error, status)
            if status == HTTPStatus.UNAUTHORIZED:
                response.headers["WWW-Authenticate"] = "Bearer"
            if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
                response.headers["Retry-After"] = "1"
            await response(scope, receive, send)
            return
        self._running += 1
        try:
            body = await self._body(scope, receive)
            if isinstance(body, bytes):
                await self._app(scope, _replayed(body, receive), send)
            else:
                status, error = body
                await problem(error, status)(scope, receive, send)
        finally:
            self._running -= 1

    async def _refusal(self, scope: Connection) -> tuple[int, TierscopeError] | None:
        needed = scope_of(scope["method"], scope["path"])
        if needed is None:
            return None
        if self._running >= self._limits.requests:
            return HTTPStatus.TOO_MANY_REQUESTS, TierscopeError(
                f"{self._running} requests are being answered, and no more are taken",
                where=scope["path"],
                fix="wait a moment, and poll less often",
            )
        return None if self._access is None else await self._unauthorized(scope, needed, self._access)

    async def _unauthorized(
        self, scope: Connection, needed: Scope, access: Access
    ) -> tuple[int, TierscopeError] | None:
        words = Headers(scope=scope).get("authorization", "").split(" ")
        where = f"{scope['method']} {scope['path']}"
        if len(words) != 2 or words[0].lower() != "bearer" or not words[1]:
            return HTTPStatus.UNAUTHORIZED, TierscopeError(
                "this needs a bearer token", where=where, fix="send 'Authorization: Bearer TOKEN'"
            )
        try:
            caller = await run_in_threadpool(access.caller, words[1])
        except TierscopeError as error:
            log.warning("a token cannot be checked: %s", error.one_line())
            return HTTPStatus.SERVICE_UNAVAILABLE, TierscopeError(
                "the token cannot be checked now", where=where, fix="try again; the API's log says why"
            )
        if caller is None:
            return HTTPStatus.UNAUTHORIZED, TierscopeError(
                "this token is nobody's", where=where, fix="use one that is in force"
            )
        if needed not in caller.scopes:
            return HTTPStatus.FORBIDDEN, TierscopeError(
                f"{caller.name} may not do this", where=where, fix=f"give the token the scope {needed.value}"
            )
        return None

    async def _body(self, scope: Connection, receive: Receive) -> bytes | tuple[int, TierscopeError]:
        """The whole body, within its bounds of size and time."""
        most = self._limits.body_bytes
        too_large = (
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            TierscopeError(f"a body has {most} bytes at most", where=scope["path"], fix="send less"),
        )
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            return too_large
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = b""
                while True:
                    message = await receive()
                    body += bytes(message.get("body", b""))
                    if len(body) > most:
                        return too_large
                    if not message.get("more_body", False):
                        return body
        except TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, TierscopeError(
                f"the body did not come within {self._limits.body_seconds:g} s",
                where=scope["path"],
                fix="send it at once",
            )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then whatever comes after it: the end of the connection."""
    told = False

    async def next_message() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message
