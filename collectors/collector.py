"""`tierscope collect`: exporters' feeds into one store, and from it answers and advice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import zmq

from collectors.adviser import Adviser, Recommend
from collectors.buffer import Buffer
from collectors.complaints import Complaints
from collectors.deployments import Deployments
from collectors.feed_finder import FeedFinder
from collectors.feeds import FeedReceiver
from collectors.keeper import Keeper
from collectors.misses import MissCounter
from collectors.names import NameWatcher
from collectors.regressions import RegressionWatcher
from collectors.sharing import Mine, SharedFeeds, Sharing, everything
from collectors.writer import StoreWriter
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.settings import CollectorSettings, FeedSource
from tierscope.feed.sockets import Context
from tierscope.registry.types import Sample
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.serving import StoreServer, socket_path
from tierscope.storage.store import Store
from tierscope.telemetry.metric_pusher import MetricPusher
from tierscope.telemetry.prometheus import MetricsServer

SERVICE_NAME = "tierscope-collector"


class _Worker(Protocol):
    """A thread of the collector."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self) -> None: ...
    @property
    def alive(self) -> bool: ...
    def samples(self) -> Iterator[Sample]: ...


class Collector:
    """Owns a store: writes what exporters publish, serves readers, renews advice, until it is closed.

    Several may own a lake together: each exporter is one's, and goes to another when that one dies.
    A feed goes on after the last batch that is in the store, whoever died in between. `clock` gives
    unix seconds, `monotonic` seconds for intervals. `start` raises `StoreUnusable` for a store that
    cannot be opened or a socket that cannot be made, `BadSettings` for addresses that cannot be used.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        *,
        recommend: Recommend,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._recommend = recommend
        self._clock = clock
        self._monotonic = monotonic
        self._started = ExitStack()
        self._store: Store | None = None
        self._metrics: MetricsServer | None = None
        self._pusher: MetricPusher | None = None
        self._workers: tuple[_Worker, ...] = ()

    @property
    def socket_path(self) -> Path:
        """Where readers of this collector's store ask."""
        return socket_path(self._settings.store_path, self._settings.socket_path)

    def start(self) -> None:
        """Open the store, listen, and begin to receive. What was opened is closed again on failure."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """Where a started collector can be read: its /metrics, and the socket of its store."""
        assert self._metrics is not None, "the collector is not started"
        return {"metrics_url": self._metrics.url, "socket": str(self.socket_path)}

    @property
    def alive(self) -> bool:
        """Whether every thread runs; one that died of a mistake of ours left its traceback on stderr."""
        return bool(self._workers) and all(worker.alive for worker in self._workers)

    @property
    def left_behind(self) -> bool:
        """Whether, after `close`, somebody computes on whom it did not wait for; what comes of it is lost."""
        return any(worker.alive for worker in self._workers)

    def reader(self) -> DuckDbReader:
        """A reader of the store, for this process; others ask at `socket_path`."""
        assert self._store is not None, "the collector is not started"
        return self._store.reader()

    def samples(self) -> Iterator[Sample]:
        """Yield the collector's own series: its feeds, what it stored, and its advice."""
        for worker in self._workers:
            yield from worker.samples()
        yield from self._names.samples()
        if self._pusher is not None:
            yield from self._pusher.samples()

    def close(self) -> None:
        """Commit what was received, end every thread, and leave one clean file. Closing twice is fine.

        Whoever computes is waited for a few seconds, and then `left_behind`.
        """
        self._started.close()

    def _start(self) -> None:
        settings, complaints = self._settings, Complaints(self._monotonic)
        self._names = NameWatcher(complaints)
        store = Store.open(
            settings.store_path, settings.lake, clock=self._clock, memory_bytes=settings.store_memory_bytes
        )
        self._started.callback(store.close)
        self._store = store
        sharing, mine = self._share(store, complaints)
        self._push_metrics()
        server = StoreServer(store.reader(), self.socket_path, store=store)
        self._started.callback(server.close)
        deployments = Deployments(settings, store.record_deployment, complaints)
        buffer = Buffer(2 * settings.flush_rows, self._monotonic)
        writer = StoreWriter(
            store,
            buffer,
            complaints,
            flush_rows=settings.flush_rows,
            flush_seconds=settings.flush_seconds,
        )
        self._started.callback(_end, [writer])
        context: Context = zmq.Context()
        self._started.callback(context.term)
        receive = partial(self._receiver, store, buffer, complaints, context)
        receivers: list[_Worker]
        if sharing:
            seconds = settings.lake.lease_seconds
            receivers = [SharedFeeds(settings.feeds, mine, receive, complaints, lease_seconds=seconds)]
        else:
            receivers = [*self._receivers(receive)]
        receivers += [*self._finders(receive, complaints, mine), *sharing]
        watchers = () if deployments.watcher is None else (deployments.watcher,)
        readers = self._readers(store, deployments, complaints, mine)
        self._started.callback(_end, [*receivers, *watchers, *readers])
        self._started.callback(buffer.hurry)
        self._workers = (*receivers, *watchers, writer, *readers)
        self._metrics = MetricsServer(
            settings.listen_host, settings.listen_port, self.samples, tls=settings.tls
        )
        self._started.callback(self._metrics.close)
        for worker in self._workers:
            if worker not in sharing:
                worker.start()

    def _share(self, store: Store, complaints: Complaints) -> tuple[list[Sharing], Mine]:
        """Who shares the work out, and what is this collector's; alone in a file, which is all of it."""
        seconds = self._settings.lake.lease_seconds
        leases = store.leases(seconds)
        if leases is None:
            return [], everything
        sharing = Sharing(leases, complaints, lease_seconds=seconds)
        self._started.callback(sharing.leave)
        self._started.callback(_end, [sharing])
        sharing.start()  # whoever comes up for longer than a lease would be taken for one that has died
        return [sharing], sharing.mine

    def _readers(
        self, store: Store, deployments: Deployments, complaints: Complaints, mine: Mine
    ) -> tuple[_Worker, ...]:
        """Who works on what is stored: advice, causes of misses, regressions, upkeep.

        Advice and causes take turns, so that the memory of one endpoint's window is taken once at a time.
        """
        settings, turn = self._settings, threading.Lock()
        reader = store.reader(settings.advise_window_bytes)

        def own() -> list[Deployment]:
            return [one for one in deployments() if mine(f"{one.namespace}/{one.endpoint}")]

        adviser = Adviser(
            store,
            reader,
            self._recommend,
            own,
            complaints,
            advise_seconds=settings.advise_seconds,
            window_seconds=settings.advise_window_seconds,
            clock=self._clock,
            turn=turn,
        )
        misses = MissCounter(
            reader,
            own,
            complaints,
            window_seconds=settings.advise_window_seconds,
            clock=self._clock,
            monotonic=self._monotonic,
            turn=turn,
        )
        regressions = RegressionWatcher(
            reader,
            own,
            complaints,
            regress_seconds=settings.regress_seconds,
            history_seconds=settings.regress_history_seconds,
            clock=self._clock,
        )
        return adviser, misses, regressions, Keeper(store, settings, complaints, mine)

    def _push_metrics(self) -> None:
        """Opened early to be closed after every thread, so that the last push has what they did last."""
        settings = self._settings
        self._pusher = MetricPusher(
            self.samples,
            settings.otlp_metrics_endpoint,
            service_name=SERVICE_NAME,
            protocol=settings.otlp_protocol,
            interval_seconds=settings.otlp_interval_seconds,
            clock=self._clock,
        )
        self._started.callback(self._pusher.close)

    def _receiver(
        self, store: Store, buffer: Buffer, complaints: Complaints, context: Context, source: FeedSource
    ) -> FeedReceiver:
        """One feed's receiver, which goes on after what is stored."""
        return FeedReceiver(
            source,
            store.position(source.name),
            buffer,
            complaints,
            context=context,
            monotonic=self._monotonic,
            names=self._names,
            keys=self._settings.feed_keys,
        )

    def _finders(
        self, receive: Callable[[FeedSource], FeedReceiver], complaints: Complaints, mine: Mine
    ) -> list[FeedFinder]:
        """Who finds exporters in Kubernetes, where the settings say so."""
        kubernetes = self._settings.kubernetes
        if kubernetes is None or kubernetes.exporters is None:
            return []
        # The Kubernetes client takes seconds to import; only who asks it waits for it.
        from collectors.kube.client import connect  # noqa: PLC0415

        api = connect(kubernetes.kubeconfig, kubernetes.context)
        taken = {feed.name for feed in self._settings.feeds}
        return [FeedFinder(api.list_all, kubernetes.exporters, receive, complaints, taken=taken, mine=mine)]

    def _receivers(self, receive: Callable[[FeedSource], FeedReceiver]) -> list[FeedReceiver]:
        receivers: list[FeedReceiver] = []
        problems: list[TierscopeError] = []
        for source in self._settings.feeds:
            try:
                receivers.append(receive(source))
            except TierscopeError as error:
                problems.append(error)
        if problems:
            _end(receivers)
            raise BadSettings(problems)
        return receivers


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join()
