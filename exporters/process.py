"""`tierscope export`: every source of a node read once, into one ledger, on /metrics, the feed and OTLP."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import zmq

from exporters.engines import Engines
from exporters.ledger import Ledger
from exporters.oddities import Oddities
from exporters.page_state import PageState
from exporters.pages import Desk
from exporters.pods.fetch import PodLister, node_of
from exporters.pods.finder import PodFinder
from exporters.pools import Pools
from exporters.private import keyed_hash, load_key
from exporters.sources import Shared, Sources, stop_all
from exporters.streams import StreamReader
from exporters.tenants import checked_tenant_series
from exporters.wiring import StreamOpener
from tierscope.domain.settings import ExporterSettings
from tierscope.domain.worker import Worker
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.feed.sockets import Context
from tierscope.registry.types import Sample
from tierscope.telemetry.metric_pusher import MetricPusher
from tierscope.telemetry.prometheus import MetricsServer
from tierscope.telemetry.spans import SpanSink

log = logging.getLogger(__name__)

SERVICE_NAME = "tierscope-exporter"


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
    sources: Sources
    finder: PodFinder | None


class Exporter:
    """Reads the sources of one node until it is closed.

    `clock` gives unix seconds, `monotonic` seconds for intervals. A source that cannot be read, now or
    ever, costs its own numbers alone. What a stream can still replay when the exporter starts is read, and
    counted on the page unless an earlier run may have counted it. Raises `BadSettings` for a key file or an
    address that cannot be used.
    """

    def __init__(
        self,
        settings: ExporterSettings,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = named_after_node(settings)
        self._clock = clock
        self._monotonic = monotonic
        self._tenant_series = checked_tenant_series(settings)
        self._hash_secret = keyed_hash(load_key(settings.hash_key_file, random_bytes=secrets.token_bytes))
        self._page_state = PageState(self._settings.page_state_file, self._settings.name)
        self._oddities = Oddities(log.warning, monotonic=monotonic)
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
        yield from parts.sources.samples()
        if parts.finder is not None:
            yield from parts.finder.samples()
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
            keys=settings.feed_keys,
        )
        opening.callback(feed.close)
        ledger = Ledger(
            settings.name,
            feed.publish,
            self._page_state,
            tenant_series=self._tenant_series,
            monotonic=self._monotonic,
        )
        began = self._clock()
        metrics = MetricsServer(settings.listen_host, settings.listen_port, self.samples, tls=settings.tls)
        opening.callback(metrics.close)
        desk = Desk(ledger, self._oddities, self._clock, self._monotonic)
        engines = Engines()
        context: Context = zmq.Context()
        opening.callback(context.term)
        reader = StreamReader((), desk, on_record=spans.emit, on_late=spans.emit_late)
        opener = StreamOpener(
            engines, self._hash_secret, context, lambda source: ledger.counted(source, began)
        )
        shared = Shared(desk, engines, Pools(), self._hash_secret, reader, opener)
        sources = Sources(settings, shared)
        finder = self._finder(shared)
        self._parts = _Parts(feed, spans, pusher, ledger, engines, metrics, sources, finder)
        opening.callback(sources.close)
        sources.start()
        coverage = _Ticker(self._tell_coverage, settings.poll_seconds)
        workers: list[Worker] = [reader, coverage, *([] if finder is None else [finder])]
        opening.callback(stop_all, workers)
        for worker in workers:
            worker.start()

    def _finder(self, shared: Shared) -> PodFinder | None:
        """Who finds this node's pods, where the settings say so."""
        settings = self._settings
        if settings.pods is None:
            return None
        lister = PodLister(settings.pods, settings.timeout_seconds)
        return PodFinder(lister, settings, settings.pods, shared)

    def _tell_coverage(self) -> None:
        """Publish how much of each source came since this was last told."""
        parts = self._parts
        assert parts is not None, "the ticker starts last"
        parts.sources.tell_coverage()
        if parts.finder is not None:
            parts.finder.tell_coverage()

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


def named_after_node(settings: ExporterSettings) -> ExporterSettings:
    """The settings with the node's name, where pods are found and no name was given; raises `BadSettings`."""
    if settings.pods is None or settings.name != ExporterSettings().name:
        return settings
    return replace(settings, name=node_of(settings.pods))


class _Ticker(Worker):
    """Does something again and again on a thread of its own."""

    def __init__(self, action: Callable[[], None], pause_seconds: float) -> None:
        super().__init__("coverage")
        self._action = action
        self._pause_seconds = pause_seconds

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_seconds):
            self._action()
