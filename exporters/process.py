"""`tierscope export`: every source of a node read once, into one ledger, on /metrics, the feed and OTLP."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import zmq

from exporters.engines import Engines
from exporters.health import Health, Voice
from exporters.ledger import Ledger
from exporters.lmcache.controller import Controller
from exporters.lmcache.controller_listener import ControllerListener
from exporters.lmcache.coordinator import CoordinatorStream
from exporters.lmcache.coordinator_listener import CoordinatorListener
from exporters.mount.page_source import MountSource
from exporters.oddities import Oddities
from exporters.pages import Desk, PagePoller, PageSource, ShowingSource
from exporters.pools import Pools
from exporters.private import keyed_hash, load_key
from exporters.streams import Stream, StreamReader
from exporters.wiring import StreamOpener, mount_sources, page_sources
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.settings import ExporterSettings
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.feed.stream_subscriber import Context
from tierscope.registry.types import Sample
from tierscope.telemetry.metric_pusher import MetricPusher
from tierscope.telemetry.prometheus import MetricsServer
from tierscope.telemetry.spans import SpanSink

log = logging.getLogger(__name__)

SERVICE_NAME = "tierscope-exporter"

STREAM_FRESH_SECONDS = 5.0
"""How long a look at a connected stream speaks for it; there are several a second."""

HEARTBEAT_FRESH_SECONDS = 30.0
"""How long a heartbeat speaks for an LMCache server; there are several in that time."""


class Worker(Protocol):
    """A thread of the exporter."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """Ask it to end."""

    def join(self) -> None:
        """Wait until it has ended."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running exporter can be read, wildcards resolved."""

    metrics_url: str
    feed_endpoint: str
    feed_replay_endpoint: str


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a running exporter is made of."""

    feed: FeedPublisher
    spans: SpanSink
    pusher: MetricPusher
    ledger: Ledger
    engines: Engines
    metrics: MetricsServer


class Exporter:
    """Reads the sources of one node until it is closed.

    `clock` gives unix seconds, `monotonic` seconds for intervals. A source that cannot be read, now or
    ever, costs its own numbers alone. What a stream can still replay when the exporter starts is read
    and counted. Raises `BadSettings` for a key file or an address that cannot be used.
    """

    def __init__(
        self,
        settings: ExporterSettings,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._hash_secret = keyed_hash(load_key(settings.hash_key_file, random_bytes=secrets.token_bytes))
        self._oddities = Oddities(log.warning, monotonic=monotonic)
        self._healths: list[Health] = []
        self._mounts: list[MountSource] = []
        self._showing: list[ShowingSource] = []
        self._parts: _Parts | None = None
        self._open = ExitStack()

    def start(self) -> None:
        """Bind every address and begin to read; once."""
        if self._parts is not None:
            raise RuntimeError("an exporter starts once")
        with ExitStack() as opening:
            self._start(opening)
            self._open = opening.pop_all()

    def close(self) -> None:
        """Stop reading, publish the last coverage, free every address; calling it again does nothing."""
        self._open.close()

    def __enter__(self) -> Exporter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def addresses(self) -> Addresses:
        """Where this exporter can be read; it must have been started."""
        if self._parts is None:
            raise RuntimeError("an exporter has addresses once it was started")
        feed = self._parts.feed
        return Addresses(self._parts.metrics.url, feed.endpoint, feed.replay_endpoint)

    def samples(self) -> Iterator[Sample]:
        """Yield every sample of /metrics as of now; none before the start."""
        parts = self._parts
        if parts is None:
            return
        yield from parts.ledger.samples()
        yield from parts.engines.samples()
        for page in self._showing:
            yield from page.samples()
        for health in self._healths:
            yield from health.samples()
        yield from self._oddities.samples()
        yield from parts.spans.samples()
        yield from parts.pusher.samples()

    def _start(self, opening: ExitStack) -> None:
        """Open everything, first what is closed last."""
        settings = self._settings
        spans, pusher = self._otlp(opening)
        feed = FeedPublisher(
            settings.name,
            settings.feed_endpoint,
            settings.feed_replay_endpoint,
            settings.feed_buffer_bytes,
            self._clock,
        )
        opening.callback(feed.close)
        ledger = Ledger(settings.name, feed.publish)
        metrics = MetricsServer(settings.listen_host, settings.listen_port, self.samples)
        opening.callback(metrics.close)
        desk = Desk(ledger, self._oddities, self._clock, self._monotonic)
        engines = Engines()
        pools = Pools()
        pages = list(page_sources(settings, engines, pools, began_unix_seconds=self._clock()))
        mounts = self._open_mounts(opening, pools)
        self._showing = [page for page in (*pages, *mounts) if isinstance(page, ShowingSource)]
        pollers = [self._poller(page, desk) for page in (*pages, *mounts)]
        streams = self._streams(opening, engines)
        opening.callback(self._tell_coverage, desk)
        reader = StreamReader(streams, desk, on_record=spans.emit)
        coverage = _Ticker(lambda: self._tell_coverage(desk), settings.poll_seconds)
        self._parts = _Parts(feed, spans, pusher, ledger, engines, metrics)
        self._listen_as_coordinator(opening, desk)
        workers: list[Worker] = [*pollers, reader, *self._controllers(opening, desk), coverage]
        opening.callback(_stop, workers)
        for worker in workers:
            worker.start()

    def _otlp(self, opening: ExitStack) -> tuple[SpanSink, MetricPusher]:
        """Open what leaves over OTLP; the last push is closed last, and so tells how the spans fared."""
        settings = self._settings
        pusher = MetricPusher(
            self.samples,
            settings.otlp_metrics_endpoint,
            service_name=SERVICE_NAME,
            service_instance=settings.name,
            protocol=settings.otlp_protocol,
            interval_seconds=settings.otlp_interval_seconds,
            clock=self._clock,
        )
        opening.callback(pusher.close)
        spans = SpanSink(
            settings.otlp_endpoint,
            service_name=SERVICE_NAME,
            service_instance=settings.name,
            protocol=settings.otlp_protocol,
        )
        opening.callback(spans.close)
        return spans, pusher

    def _poller(self, page: PageSource, desk: Desk) -> PagePoller:
        settings = self._settings
        # A reading may take several answers, each as long as it is allowed to.
        fresh_seconds = 2 * settings.poll_seconds + 4 * settings.timeout_seconds
        return PagePoller(
            page,
            self._health(page.source, fresh_seconds),
            desk,
            poll_seconds=settings.poll_seconds,
            timeout_seconds=settings.timeout_seconds,
        )

    def _open_mounts(self, opening: ExitStack, pools: Pools) -> list[MountSource]:
        self._mounts = list(
            mount_sources(
                self._settings,
                pools,
                self._hash_secret,
                clock=self._clock,
                monotonic=self._monotonic,
            )
        )
        for mount in self._mounts:
            opening.callback(mount.stop)
        return self._mounts

    def _streams(self, opening: ExitStack, engines: Engines) -> list[Stream]:
        context: Context = zmq.Context()
        opening.callback(context.term)
        opener = StreamOpener(
            engines,
            self._hash_secret,
            lambda source: self._health(source, STREAM_FRESH_SECONDS),
            context,
        )
        streams: list[Stream] = []
        for stream in opener.open_all(self._settings):
            opening.callback(stream.subscriber.close)
            streams.append(stream)
        return streams

    def _listen_as_coordinator(self, opening: ExitStack, desk: Desk) -> None:
        scanned = {mount.pool for mount in self._settings.mounts}
        for server in self._settings.lmcache:
            if server.coordinator_port is not None:
                stream = CoordinatorStream(
                    server.name,
                    server.pool or server.name,
                    pool_is_scanned=server.pool_is_scanned or server.pool in scanned,
                )
                health = self._health(
                    SourceId(SourceKind.LMCACHE_COORDINATOR, server.name), HEARTBEAT_FRESH_SECONDS
                )
                listener = CoordinatorListener(
                    stream, health, desk, self._settings.listen_host, server.coordinator_port
                )
                opening.callback(listener.close)

    def _controllers(self, opening: ExitStack, desk: Desk) -> list[ControllerListener]:
        context: Context = zmq.Context()
        opening.callback(context.term)
        listeners: list[ControllerListener] = []
        for inside in self._settings.lmcache_in_process:
            if inside.controller_endpoint is not None:
                source = SourceId(SourceKind.LMCACHE_CONTROLLER, inside.name)
                listener = ControllerListener(
                    Controller(inside.name, where=str(source), chunk_tokens=inside.chunk_tokens or 0),
                    self._health(source, STREAM_FRESH_SECONDS),
                    desk,
                    pull_endpoint=inside.controller_endpoint,
                    reply_endpoint=inside.controller_reply_endpoint,
                    context=context,
                )
                opening.callback(listener.close)
                listeners.append(listener)
        return listeners

    def _health(self, source: SourceId, fresh_seconds: float) -> Health:
        health = Health(
            source,
            fresh_seconds=fresh_seconds,
            since_unix_seconds=self._clock(),
            monotonic=self._monotonic,
            voice=Voice(warn=log.warning, inform=log.info),
        )
        self._healths.append(health)
        return health

    def _tell_coverage(self, desk: Desk) -> None:
        """Publish how much of each source came since this was last told."""
        for health in self._healths:
            desk.post(health.source, health.coverage(self._clock()), ())


class _Ticker:
    """Does something again and again on a thread of its own."""

    def __init__(self, action: Callable[[], None], pause_seconds: float) -> None:
        self._action = action
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coverage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_seconds):
            self._action()


def _stop(workers: Sequence[Worker]) -> None:
    """End all threads together: a poll in flight is waited for, but not one after the other."""
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join()
