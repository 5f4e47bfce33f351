"""An HTTP server that answers with what a test lays out, and can hang, drip or refuse."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PageServer:
    """Serves `pages` by path; a path in `hung` accepts and does not answer until the server is closed.

    What is not laid out is a 404. `asked` holds every path in the order asked.
    """

    def __init__(self, pages: dict[str, bytes] | None = None) -> None:
        self.pages = dict(pages or {})
        self.hung: set[str] = set()
        self.dripping: set[str] = set()
        self.asked: list[str] = []
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, handler: _Handler) -> None:
        path = handler.path
        self.asked.append(path)
        if path in self.hung:
            self._closing.wait()
            handler.close_connection = True
            return
        page = self.pages.get(path)
        if page is None:
            handler.send_error(404)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(page)))
        handler.end_headers()
        if path in self.dripping:
            for byte in page:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                if self._closing.wait(0.02):
                    return
        handler.wfile.write(page)

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    owner: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        try:
            self.owner.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_) -> None:
        """Tests read `asked` instead."""
