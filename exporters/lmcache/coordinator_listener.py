"""The address at which an LMCache server finds its coordinator: we listen, and command nothing."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from exporters.health import Health, Units
from exporters.lmcache.coordinator import CoordinatorStream, decode_batches
from exporters.lmcache.suspicion import split_untold
from exporters.oddities import Oddity
from exporters.pages import Desk
from exporters.streams import StreamReading
from tierscope.domain.errors import BadInput, BadSettings, SourceUnreadable, TierscopeError

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024 * 1024
"""Largest request that is read; a second of a busy server is a few megabytes."""

IDLE_SECONDS = 30.0
"""How long a connection may say nothing."""

CLOSE_POLL_SECONDS = 0.1

PATIENCE_SECONDS = 30.0
"""How long a server may say nothing, not even a heartbeat, before what it holds is not known any more."""


class CoordinatorListener:
    """Serves one server from threads of its own, which hand on what it tells one after the other.

    A server that is silent for a while is down, and how full its L1 is no longer shown; it sends heartbeats.
    When it speaks again and no new life of it begins, L1 holds what it held. Raises `BadSettings` where the
    address cannot be bound; port 0 takes any free one.
    """

    def __init__(self, stream: CoordinatorStream, health: Health, desk: Desk, host: str, port: int) -> None:
        self._stream = stream
        self._health = health
        self._desk = desk
        self._lock = threading.Lock()
        self._heard_at: float | None = None
        self._silent = False
        handler = type("Handler", (_Handler,), {"owner": self})
        try:
            self._server = _Server((host, port), handler, self.look)
        except OSError as error:
            problem = TierscopeError(
                f"an LMCache server's coordinator cannot listen here: {error}",
                where=f"{host} port {port}",
                fix="choose a free coordinator_port for each server",
            )
            raise BadSettings([problem]) from error
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_POLL_SECONDS,), name="coordinator", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening, free the port and hang up: whoever listens here next is to be told."""
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._thread.join()

    def answer(self, method: str, path: str, body: bytes) -> dict[str, object]:
        """Take one request and return what LMCache expects; raises `BadInput` for unreadable events."""
        parts = path.strip("/").split("/")
        with self._lock:
            self._hear()
            if parts == ["events"]:
                self._events(body)
            elif parts[0] == "instances":
                self._member(method)
        return {"instance_id": _instance(body, parts), "re_registered": False}

    def look(self) -> None:
        """See whether the server has been silent for too long; asked several times a second."""
        with self._lock:
            heard = self._heard_at
            if self._silent or heard is None or self._desk.monotonic() - heard < PATIENCE_SECONDS:
                return
            self._silent = True
            self._desk.ledger.forget_readings(self._health.source)
            self._health.failed(_silent(self._health))

    def _hear(self) -> None:
        """The server spoke."""
        self._health.succeeded()
        self._heard_at = self._desk.monotonic()
        if self._silent:
            self._silent = False
            self._post(StreamReading([*self._stream.held(self._desk.clock())]))

    def _member(self, method: str) -> None:
        """The server registers, sends a heartbeat, or leaves."""
        if method == "DELETE":
            self._post(StreamReading([*self._stream.leave(self._desk.clock())]))
            self._desk.ledger.forget_readings(self._health.source)
        elif method in ("POST", "PUT"):
            self._stream.stays()

    def _events(self, body: bytes) -> None:
        source = self._health.source
        try:
            batches = decode_batches(body, where=str(source))
        except BadInput as error:
            self._health.take(Units(undecodable=1))
            self._desk.post(source, (), [Oddity("undecodable message", error)])
            raise
        self._desk.oddities.hold(source, [split_untold(self._stream.server, self.url)])
        reading = self._stream.take(batches)
        self._health.take(Units(received=len(batches), missing=reading.missing))
        self._post(reading)

    def _post(self, reading: StreamReading) -> None:
        self._health.mark_stale(self._stream.stale)
        self._desk.post(self._health.source, reading.entries, reading.oddities)


class _Server(ThreadingHTTPServer):
    """Calls `look` between requests, too, and can end the connections that callers keep open."""

    def __init__(self, address: tuple[str, int], handler: type[_Handler], look: Callable[[], None]) -> None:
        self._look = look
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def hang_up(self) -> None:
        """End every connection; a request that is being answered may lose its answer."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Called with each new connection."""
        if isinstance(request, socket.socket):
            with self._lock:
                self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Called when a connection ends."""
        if isinstance(request, socket.socket):
            with self._lock:
                self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Called where a connection failed. A server that hangs up, because it ended, is no fault."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def service_actions(self) -> None:
        """Called by the thread that waits for connections."""
        super().service_actions()
        self._look()


class _Handler(BaseHTTPRequestHandler):
    owner: ClassVar[CoordinatorListener]
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def _take(self) -> None:
        size = self.headers.get("Content-Length") or "0"
        if not size.isdecimal() or int(size) > MOST_BYTES:
            self.close_connection = True
            self._say(413, {"error": "too large"})
            return
        self._say(*self._answer(self.rfile.read(int(size))))

    def _answer(self, body: bytes) -> tuple[int, dict[str, object]]:
        try:
            return 200, self.owner.answer(self.command, self.path, body)
        except BadInput as error:
            return 400, {"error": error.what}
        except Exception:  # a fault of ours in one request must not end the source
            log.exception("a request of an LMCache server could not be taken")
            return 500, {"error": "report this"}

    do_POST = do_PUT = do_DELETE = do_GET = _take  # noqa: N815  the base class's names

    def _say(self, status: int, document: dict[str, object]) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        log.debug("%s: %s", self.client_address[0], format % args)


def _silent(health: Health) -> SourceUnreadable:
    return SourceUnreadable(
        f"the server has sent no heartbeat for {PATIENCE_SECONDS:.0f} s",
        where=str(health.source),
        fix="check that it runs and reaches this address; what it holds is shown again when it speaks",
    )


def _instance(body: bytes, path: list[str]) -> str:
    """Whom a request is about: by its path or, where it registers, by what it says of itself."""
    if len(path) > 1:
        return path[1]
    try:
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return ""
    return str(document.get("instance_id", "")) if isinstance(document, dict) else ""
