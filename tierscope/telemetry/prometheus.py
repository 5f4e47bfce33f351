"""Samples on a Prometheus page: a collector that never dies, and the server of /metrics."""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.registry.metrics import DROPPED_SAMPLES, METRICS
from tierscope.registry.types import Metric, Sample
from tierscope.telemetry.families import DropReason, Family, families, family

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["MetricsServer", "SampleCollector", "families"]

log = logging.getLogger(__name__)

IDLE_CONNECTION_SECONDS = 30
"""A scraper that stops talking in the middle of a request is let go after this time."""

CLOSE_POLL_SECONDS = 0.1
"""How often the server looks whether it is to close."""

Read = Callable[[], Iterable[Sample]]


class SampleCollector(Collector):
    """Serves what `read` yields. A scrape always ends well: what cannot be served is counted and logged.

    `read` may be called by several scrapes at once. When it raises, what it yielded before is served.
    Registering the collector reads nothing: it is described by the table.
    """

    def __init__(self, read: Read, *, table: Sequence[Metric] = METRICS) -> None:
        self._read = read
        self._table = table
        self._dropped: Counter[DropReason] = Counter(dict.fromkeys(DropReason, 0))
        self._lock = threading.Lock()

    @property
    def dropped(self) -> Mapping[DropReason, int]:
        """How many samples were left out so far, by reason."""
        with self._lock:
            return dict(self._dropped)

    def describe(self) -> Iterator[Family]:
        """Yield every family of the table, empty."""
        return (family(metric, {}) for metric in self._table)

    def collect(self) -> Iterator[Family]:
        """Read once and yield the families."""
        return families(chain(self._samples(), self._own()), table=self._table, on_drop=self._drop)

    def _samples(self) -> Iterator[Sample]:
        try:
            yield from self._read()
        except Exception:  # whatever breaks the reading, the rest of the page is served
            log.warning("reading the samples of this page failed", exc_info=True)
            self._drop(DropReason.READ_FAILED, "everything after the failure")

    def _own(self) -> Iterator[Sample]:
        """What was left out so far; asked for last, so that this page's own are in it."""
        if DROPPED_SAMPLES in self._table:
            for reason, count in self.dropped.items():
                yield Sample(DROPPED_SAMPLES, (reason,), count)

    def _drop(self, reason: DropReason, what: str) -> None:
        with self._lock:
            self._dropped[reason] += 1
            count = self._dropped[reason]
        # the first, then ever fewer: a fault in every scrape must not fill the log
        level = logging.WARNING if count & (count - 1) == 0 else logging.DEBUG
        log.log(level, "sample left out (%s, %d so far): %s", reason, count, what)


class MetricsServer:
    """Serves `read` on http://host:port/metrics from a registry of its own; port 0 takes any free one.

    Raises `BadSettings` when the address cannot be bound.
    """

    def __init__(self, host: str, port: int, read: Read, *, table: Sequence[Metric] = METRICS) -> None:
        registry = CollectorRegistry()
        registry.register(SampleCollector(read, table=table))
        page = _only_metrics(make_wsgi_app(registry))
        try:
            self._server = make_server(host, port, page, _server_class(host), _QuietHandler)
        except OSError as error:
            problem = TierscopeError(
                f"/metrics cannot listen here: {error}",
                where=f"{host} port {port}",
                fix="choose an address of this machine and a free port; port 0 lets the system choose",
            )
            raise BadSettings([problem]) from error
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_port}/metrics"
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
