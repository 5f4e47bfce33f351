"""What is read for one part of the settings: polled pages, streams, listeners, opened and closed together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from exporters.engines import Engines
from exporters.health import Health, Voice
from exporters.lmcache.controller import Controller
from exporters.lmcache.controller_listener import ControllerListener
from exporters.lmcache.coordinator import CoordinatorStream
from exporters.lmcache.coordinator_listener import CoordinatorListener
from exporters.mount.page_source import MountSource
from exporters.pages import Desk, PagePoller, PageSource, ShowingSource
from exporters.pools import Pools
from exporters.private import KeyedHash
from exporters.streams import Stream, StreamReader
from exporters.wiring import StreamOpener, engine_id, mount_sources, page_sources
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.settings import ExporterSettings
from tierscope.domain.worker import Worker
from tierscope.registry.types import Sample

log = logging.getLogger(__name__)

STREAM_FRESH_SECONDS = 5.0
"""How long a look at a connected stream speaks for it; there are several a second."""

HEARTBEAT_FRESH_SECONDS = 30.0
"""How long a heartbeat speaks for an LMCache server; there are several in that time."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What every group of sources brings its readings to, or needs to make sense of them."""

    desk: Desk
    engines: Engines
    pools: Pools
    hash_secret: KeyedHash
    reader: StreamReader
    opener: StreamOpener


class Sources:
    """The sources of one settings part, read from `start` until `close`.

    What was opened is closed again if the start fails. Raises `BadSettings` for an address that is none.
    """

    def __init__(self, settings: ExporterSettings, shared: Shared) -> None:
        self._settings = settings
        self._shared = shared
        self._healths: list[Health] = []
        self._showing: list[ShowingSource] = []
        self._workers: list[Worker] = []
        self._streams: list[Stream] = []
        self._open = ExitStack()

    def start(self) -> None:
        """Open everything, first what is closed last."""
        with ExitStack() as opening:
            self._start(opening)
            self._open = opening.pop_all()

    def stop(self) -> None:
        """Ask every thread to end, so that a close need not wait for one after the other."""
        for worker in self._workers:
            worker.stop()

    def close(self) -> None:
        """Stop reading and tell the last coverage; calling it again does nothing."""
        self._open.close()

    def forget(self) -> None:
        """After the close: these sources are gone for good.

        What waited for another stream is told without it; what they said of the present is no longer shown.
        """
        self._shared.reader.finish(self._streams)
        for health in self._healths:
            self._shared.desk.ledger.forget_readings(health.source)
            self._shared.desk.oddities.hold(health.source, ())
        ledger = self._shared.desk.ledger
        for engine in self._settings.engines:
            self._shared.engines.forget(engine_id(engine))
            ledger.left(engine_id(engine))
        for cache in self._caches():
            self._shared.engines.forget_cache(cache)
            self._shared.pools.forget_cache(cache)
            ledger.left(cache)

    def _caches(self) -> Iterator[str]:
        yield from (server.name for server in self._settings.lmcache)
        yield from (inside.name for inside in self._settings.lmcache_in_process)

    def samples(self) -> Iterator[Sample]:
        """Yield the sources' own series."""
        for page in self._showing:
            yield from page.samples()
        for health in self._healths:
            yield from health.samples()

    def tell_coverage(self) -> None:
        """Publish how much of each source came since this was last told."""
        desk = self._shared.desk
        for health in self._healths:
            desk.post(health.source, health.coverage(desk.clock()), ())

    def _start(self, opening: ExitStack) -> None:
        settings, shared, desk = self._settings, self._shared, self._shared.desk
        pages = list(page_sources(settings, shared.engines, shared.pools, began_unix_seconds=desk.clock()))
        mounts = self._open_mounts(opening)
        self._showing = [page for page in (*pages, *mounts) if isinstance(page, ShowingSource)]
        pollers = [self._poller(page) for page in (*pages, *mounts)]
        self._streams = self._open_streams(opening)
        opening.callback(self.tell_coverage)
        self._listen_as_coordinator(opening)
        self._workers = [*pollers, *self._controllers(opening)]
        opening.callback(stop_all, self._workers)
        opening.callback(shared.reader.remove, self._streams)
        shared.reader.add(self._streams)
        for worker in self._workers:
            worker.start()
        for engine in settings.engines:
            desk.ledger.came(engine_id(engine))
        for cache in self._caches():
            desk.ledger.came(cache)

    def _poller(self, page: PageSource) -> PagePoller:
        settings = self._settings
        # A reading may take several answers, each as long as it is allowed to.
        fresh_seconds = 2 * settings.poll_seconds + 4 * settings.timeout_seconds
        return PagePoller(
            page,
            self._health(page.source, fresh_seconds),
            self._shared.desk,
            poll_seconds=settings.poll_seconds,
            timeout_seconds=settings.timeout_seconds,
        )

    def _open_mounts(self, opening: ExitStack) -> list[MountSource]:
        shared = self._shared
        mounts = list(
            mount_sources(
                self._settings,
                shared.pools,
                shared.hash_secret,
                clock=shared.desk.clock,
                monotonic=shared.desk.monotonic,
            )
        )
        for mount in mounts:
            opening.callback(mount.stop)
        return mounts

    def _open_streams(self, opening: ExitStack) -> list[Stream]:
        streams: list[Stream] = []
        fresh = partial(self._health, fresh_seconds=STREAM_FRESH_SECONDS)
        for stream in self._shared.opener.open_all(self._settings, fresh):
            opening.callback(stream.subscriber.close)
            streams.append(stream)
        return streams

    def _listen_as_coordinator(self, opening: ExitStack) -> None:
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
                    stream, health, self._shared.desk, self._settings.listen_host, server.coordinator_port
                )
                opening.callback(listener.close)

    def _controllers(self, opening: ExitStack) -> list[ControllerListener]:
        listeners: list[ControllerListener] = []
        for inside in self._settings.lmcache_in_process:
            if inside.controller_endpoint is not None:
                source = SourceId(SourceKind.LMCACHE_CONTROLLER, inside.name)
                listener = ControllerListener(
                    Controller(inside.name, where=str(source), chunk_tokens=inside.chunk_tokens or 0),
                    self._health(source, STREAM_FRESH_SECONDS),
                    self._shared.desk,
                    pull_endpoint=inside.controller_endpoint,
                    reply_endpoint=inside.controller_reply_endpoint,
                    context=self._shared.opener.context,
                )
                opening.callback(listener.close)
                listeners.append(listener)
        return listeners

    def _health(self, source: SourceId, fresh_seconds: float) -> Health:
        health = Health(
            source,
            fresh_seconds=fresh_seconds,
            since_unix_seconds=self._shared.desk.clock(),
            monotonic=self._shared.desk.monotonic,
            voice=Voice(warn=log.warning, inform=log.info),
        )
        self._healths.append(health)
        return health


def stop_all(workers: Sequence[Worker]) -> None:
    """End all threads together: a poll in flight is waited for, but not one after the other."""
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join()
