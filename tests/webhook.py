"""A receiver of Alertmanager's webhooks on loopback: what was delivered, by path, in order."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class Webhook:
    """Takes every message until it is closed."""

    def __init__(self) -> None:
        self.delivered: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.delivered.append((self.path.removeprefix("/"), json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def names(self, receiver: str) -> list[str]:
        """Names of the alerts that came firing to one receiver, in order of their first coming."""
        found = [
            alert["labels"]["alertname"]
            for path, message in list(self.delivered)
            if path == receiver
            for alert in message["alerts"]
            if alert["status"] == "firing"
        ]
        return list(dict.fromkeys(found))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
