"""Samples on a Prometheus page: a collector that never dies, and the server of /metrics."""

from __future__ import annotations

import logging
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.tls_settings import TlsSettings
from tierscope.registry.metrics import METRICS
from tierscope.registry.types import Metric
from tierscope.telemetry.checked import CheckedRead, Read
from tierscope.telemetry.families import DropReason, Family, families, family
from tierscope.telemetry.tls import server_context

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["MetricsServer", "SampleCollector", "families"]

log = logging.getLogger(__name__)

IDLE_CONNECTION_SECONDS = 30
"""A scraper that stops talking in the middle of a request is let go after this time."""

CLOSE_POLL_SECONDS = 0.1
"""How often the server looks whether it is to close."""


class SampleCollector(Collector):
    """Serves what `read` yields. A scrape always ends well: what cannot be served is counted and logged.

    `read` may be called by several scrapes at once. When it raises, what it yielded before is served.
    Registering the collector reads nothing: it is described by the table.
    """

    def __init__(self, read: Read, *, table: Sequence[Metric] = METRICS) -> None:
        self._table = table
        self._checked = CheckedRead(read, table=table)

    @property
    def dropped(self) -> Mapping[DropReason, int]:
        """How many samples were left out so far, by reason."""
        return self._checked.dropped

    def describe(self) -> Iterator[Family]:
        """Yield every family of the table, empty."""
        return (family(metric, {}) for metric in self._table)

    def collect(self) -> Iterator[Family]:
        """Read once and yield the families."""
        return (family(metric, values) for metric, values in self._checked.by_metric())


class MetricsServer:
    """Serves `read` on http://host:port/metrics from a registry of its own; port 0 takes any free one.

    With `tls` it is https. Raises `BadSettings` when the address cannot be bound or a certificate not used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        read: Read,
        *,
        table: Sequence[Metric] = METRICS,
        tls: TlsSettings | None = None,
    ) -> None:
        context = None if tls is None else server_context(tls)
        registry = CollectorRegistry()
        registry.register(SampleCollector(read, table=table))
        page = _only_metrics(make_wsgi_app(registry))
        try:
            self._server: _Server = make_server(host, port, page, _server_class(host), _QuietHandler)
        except OSError as error:
            problem = TierscopeError(
                f"/metrics cannot listen here: {error}",
                where=f"{host} port {port}",
                fix="choose an address of this machine and a free port; port 0 lets the system choose",
            )
            raise BadSettings([problem]) from error
        self._server.context = context
        name = f"[{host}]" if ":" in host else host
        self.url = f"http{'s' if context else ''}://{name}:{self._server.server_port}/metrics"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_POLL_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving and free the port; calling it again does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingWSGIServer):
    context: ssl.SSLContext | None = None

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; the handshake is its own thread's, so that a slow one holds up nobody."""
        connection, client = super().get_request()
        if self.context is None:
            return connection, client
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), client

    def server_bind(self) -> None:
        """Bind without asking a name server for our own name, which may be slow."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  as overridden
        """Note a connection that broke; the base class would print it."""
        log.debug("a connection from %s broke", client_address, exc_info=True)


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _Ipv6Server if ":" in host else _Server


class _QuietHandler(WSGIRequestHandler):
    timeout = IDLE_CONNECTION_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        log.debug("%s: %s", self.client_address[0], format % args)


def _only_metrics(page: WSGIApplication) -> WSGIApplication:
    """Answer 404 for every path but /metrics."""

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/metrics":
            return page(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"only /metrics is served here\n"]

    return app
