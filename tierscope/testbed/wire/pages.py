"""HTTP on loopback: each page has a port of its own, all are accepted by one thread."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tierscope.testbed.config import Faults

_HUNG_LOOK_SECONDS = 0.05
_SILENT_CLIENT_SECONDS = 2.0


class Answer(NamedTuple):
    """A body and what it is."""

    content_type: str
    body: bytes


class PageServer:
    """Serves named sites. A site maps paths to functions that make their answer when asked.

    A fault holds an answer back; whoever waits is let go, unanswered, when the server closes.
    """

    def __init__(
        self, sites: Mapping[str, Mapping[str, Callable[[], Answer]]], *, faults: Callable[[], Faults]
    ) -> None:
        self._closing = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._servers = {
            name: _Site(("127.0.0.1", 0), self._handler(name, paths, faults)) for name, paths in sites.items()
        }
        self._thread = threading.Thread(target=self._accept, name="testbed-pages", daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        """Base address of a site."""
        return f"http://127.0.0.1:{self.port(name)}"

    def port(self, name: str) -> int:
        """Port of a site."""
        return int(self._servers[name].server_address[1])

    def close(self) -> None:
        """Stop accepting, let hung answers go, and wait for every thread. Again: nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._wake.send(b"x")
        self._thread.join()
        for server in self._servers.values():
            server.server_close()
        self._wake.close()
        self._woken.close()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for server in self._servers.values():
                selector.register(server, selectors.EVENT_READ, server)
            while not self._closing.is_set():
                for key, _ in selector.select():
                    if key.data is not None:
                        key.data.handle_request()

    def _handler(
        self, name: str, paths: Mapping[str, Callable[[], Answer]], faults: Callable[[], Faults]
    ) -> type[BaseHTTPRequestHandler]:
        closing = self._closing

        class Handler(BaseHTTPRequestHandler):
            timeout = _SILENT_CLIENT_SECONDS

            def do_GET(self) -> None:
                page = paths.get(self.path.partition("?")[0])
                if page is None:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                while name in faults().hung_pages:
                    if closing.wait(_HUNG_LOOK_SECONDS):
                        return
                if closing.wait(faults().page_delay_seconds):
                    return
                answer = page()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
                """Say nothing: a reader's polling is no news."""

        return Handler


class _Site(ThreadingHTTPServer):
    timeout = 0
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a reader that hangs up early is its own business."""
