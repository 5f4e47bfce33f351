"""What chaos is let loose on: a testbed, two exporters, two servers on one lake, PostgreSQL, and a keeper.

Each exporter has two engines: one whose name is in its settings, and one that it finds as a pod. Exporters
and servers are started again when they end, as a kubelet would; nobody does anything else.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests import lakes
from tests.engines.kube_server import ADMIN, KubeServer
from tests.exporting import await_true
from tests.load.handed_over import HandedOver, Heard, Place, Sender
from tests.load.namespaces import name, tmpfs
from tests.node_pods import replica_pod
from tests.ports import free_port
from tests.processes import alive, running
from tests.staged import Staged, feed_to_be, settings_file
from tierscope.cli.output import stderr
from tierscope.cli.processes import Restarter
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import StoreUnusable, TierscopeError
from tierscope.domain.requests import TokenSplit
from tierscope.domain.settings import CollectorSettings, EngineSettings, FeedSource, Settings
from tierscope.domain.window import TimeSpan
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.testbed.config import Mix, ServiceTimes, TestbedConfig
from tierscope.testbed.sites import CURVINE
from tierscope.testbed.testbed import Testbed
from tierscope.testbed.workload.request import Request, Workload

ALL_TIME = TimeSpan(0.0, 1e11)
REPLICAS = 4
EXPORTERS = 2
NODE_REPLICAS = REPLICAS // EXPORTERS
SERVERS = 2
LEASE_SECONDS = 3.0
DISK_BYTES = 2**32
"""Of memory, of which no more is taken than is used: a lake keeps the files that it replaced for an hour."""
CHECK_SECONDS = 0.25
START_TRIES = 5
POLLED = ("vllm_metrics", "lmcache_metrics", "curvine_master", "curvine_workers")
"""Pages: a poll that got no answer is missing for good, and counted; the next one tells what there is."""
CONFIG = TestbedConfig(
    replicas=REPLICAS,
    duration_seconds=None,
    history_seconds=1.0,
    speed=1.0,
    step_seconds=0.25,
    ring_batches=100_000,
    mix=Mix(agents_per_second=0.1, chats_per_second=0.5, documents_per_second=1.5, unrelated_per_second=0.5),
    service=ServiceTimes(prefill_seconds_per_token=1e-5, decode_seconds_per_token=0.002),
)


class _Stoppable:
    """A workload in which no session begins, and no turn is added, once it is told to end."""

    def __init__(self, inner: Workload, stopped: threading.Event) -> None:
        self._inner, self._stopped = inner, stopped

    def next_arrival(self) -> Request | None:
        return None if self._stopped.is_set() else self._inner.next_arrival()

    def follow_up(self, request: Request, finished_seconds: float) -> Request | None:
        return None if self._stopped.is_set() else self._inner.follow_up(request, finished_seconds)


class Traffic(Testbed):
    """A testbed that remembers what each engine's lives said, and whose traffic can be let run out."""

    def __init__(self, config: TestbedConfig) -> None:
        self.senders: list[Sender] = []
        super().__init__(config, tally=self._sender)
        self.ended = threading.Event()

    def _sender(self) -> Sender:
        self.senders.append(Sender(len(self.senders)))
        return self.senders[-1]

    def _workload(self) -> Workload:
        return _Stoppable(super()._workload(), self.ended)


def _started(arguments: list[str]) -> Restarter:
    """A process that is up; one that gave up waiting for the lake is tried again."""
    for _ in range(START_TRIES - 1):
        try:
            return Restarter(arguments)
        except TierscopeError as error:
            stderr.print(error.one_line(), markup=False)
    return Restarter(arguments)


def _ports(engine: EngineSettings) -> dict[str, int]:
    """The ports of an engine, by the setting that tells each."""
    told = {field.name: getattr(engine, field.name) for field in dataclasses.fields(engine)}
    return {
        name: int(urlsplit(value).port or 0)
        for name, value in told.items()
        if isinstance(value, str) and "://127.0.0.1:" in value
    }


class Stage(Staged):
    """Everything that runs; entered, traffic flows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopping = threading.Event()
        self.testbed = Traffic(CONFIG)
        self.names = [f"engine-{number}.chaos" for number in range(0, REPLICAS, NODE_REPLICAS)]
        self.processes: dict[str, Restarter] = {}
        self._keeping = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        super().__exit__()

    def _start(self, opened: ExitStack) -> None:
        self.postgres = opened.enter_context(lakes.postgres(crashes=True))
        self.disk = opened.enter_context(tmpfs(self._folder / "disk", DISK_BYTES))
        self.lake = self.postgres.lake(self.disk, lease_seconds=LEASE_SECONDS)
        opened.enter_context(self.testbed)
        name(self.names)
        self.kube = KubeServer({})
        opened.callback(self.kube.close)
        self._account = self.kube.account(ADMIN, self._folder / "account")
        self.engine_ports = {f"exporter-{number}": [] for number in range(EXPORTERS)}
        feeds = [self._start_exporter(opened, number) for number in range(EXPORTERS)]
        self.feed_ports = [
            int(urlsplit(one).port or 0) for feed in feeds for one in (feed.endpoint, feed.replay_endpoint)
        ]
        for number in range(SERVERS):
            self._start_server(opened, number, feeds)
        self._reader = DuckDbReader.open(self.lake.name)
        opened.callback(self._reader.close)
        self.handed_over = HandedOver(self.testbed.senders, self._stored_since)
        keeper = threading.Thread(target=self._restart_what_ended, daemon=True)
        keeper.start()
        opened.callback(keeper.join)
        opened.callback(self._stopping.set)

    def _start_exporter(self, opened: ExitStack, number: int) -> FeedSource:
        told, who = self.testbed.settings(), f"exporter-{number}"
        named, *found = self.engines_of(who)
        for engine in found:
            self.engine_ports[who] += _ports(told.engines[engine]).values()
            as_pod = replica_pod(told.engines[engine], told.lmcache[engine], CONFIG.endpoint)
            self.kube.place(as_pod, namespace=CONFIG.namespace, node=who)
        feed = feed_to_be(who)
        settings = dataclasses.replace(
            told,
            name=who,
            engines=(self._by_name(told.engines[named], self.names[number], who),),
            lmcache=(told.lmcache[named],),
            pods=PodDiscovery(
                node=who,
                namespaces=(CONFIG.namespace,),
                pool=CURVINE,
                find_seconds=1.0,
                api_url=self.kube.url,
                service_account_folder=self._account,
            ),
            curvine=told.curvine if number == 0 else (),
            listen_port=free_port(),
            feed_endpoint=feed.endpoint,
            feed_replay_endpoint=feed.replay_endpoint,
            poll_seconds=1.0,
            page_state_file=str(self._folder / f"{who}.page"),
        )
        if number:
            servers = [dataclasses.replace(server, pool=None) for server in settings.lmcache]
            settings = dataclasses.replace(settings, lmcache=tuple(servers))
        self._keep(opened, "export", who, Settings(exporter=settings))
        return feed

    def _by_name(self, engine: EngineSettings, host: str, who: str) -> EngineSettings:
        """An engine whose addresses have a name to look up."""
        ports = _ports(engine)
        self.engine_ports[who] += ports.values()
        named = {field: getattr(engine, field).replace("127.0.0.1", host) for field in ports}
        return dataclasses.replace(engine, **named)

    def _start_server(self, opened: ExitStack, number: int, feeds: list[FeedSource]) -> None:
        collector = CollectorSettings(
            store_path=self.lake.name,
            lake=self.lake.settings,
            socket_path=str(self._folder / f"{number}.sock"),
            feeds=tuple(feeds),
            deployments=(self.testbed.deployment(),),
            listen_port=free_port(),
            maintain_seconds=20.0,
        )
        self._keep(opened, "serve", f"server-{number}", Settings(collector=collector))

    def _keep(self, opened: ExitStack, command: str, who: str, settings: Settings) -> None:
        path = settings_file(self._folder, who, settings)
        self.processes[who] = _started([command, "--config", str(path)])
        opened.callback(self.processes[who].stop)

    def _restart_what_ended(self) -> None:
        while not self._stopping.wait(CHECK_SECONDS):
            for one in self.processes.values():
                with self._keeping:
                    if not self._stopping.is_set():
                        one.check()

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """What ends meanwhile is not started again before the end of this."""
        with self._keeping:
            yield

    def engines_of(self, exporter: str) -> range:
        """The numbers of an exporter's engines."""
        first = int(exporter.rpartition("-")[2]) * NODE_REPLICAS
        return range(first, first + NODE_REPLICAS)

    def restart_engine(self, number: int) -> None:
        """Restart an engine; when this returns its new life has begun."""
        lives = self.testbed.senders[number].lives
        before = len(lives)
        self.testbed.restart(number)
        await_true(lambda: len(lives) > before, f"engine {number} has a new life")

    def living(self, which: str) -> dict[str, int]:
        """Who of a kind is alive just now, by name: `exporter`, `server`, `collector` or `postgres`."""
        if which == "postgres":
            found = {which: self._postmaster()}
        elif which == "collector":
            # A collector that was started again is not the one that its server announced.
            found = {
                f"{which} {pid} of {who}": pid
                for who, server in self.living("server").items()
                for pid in running(server, "collect")
            }
        else:
            found = {who: one.pid for who, one in self.processes.items() if who.startswith(which)}
        return {who: pid for who, pid in found.items() if pid is not None and alive(pid)}

    def _postmaster(self) -> int | None:
        try:
            lines = (self.postgres.folder / "data" / "postmaster.pid").read_text("utf-8").splitlines()
        except OSError:
            return None
        return int(lines[0]) if lines else None

    def stored(self) -> TokenSplit | None:
        """What the store has; None while it cannot be asked."""
        deployment = self.testbed.deployment()
        try:
            return self._reader.totals(deployment.namespace, deployment.endpoint, ALL_TIME).tokens
        except StoreUnusable:
            return None

    def sources(self) -> list[tuple[str, int, int, int]]:
        """Of every stream and feed: messages received, missing and undecodable, as the store tells."""
        return [
            (str(one.source), one.received, one.missing, one.undecodable)
            for one in self._reader.coverage(ALL_TIME)
        ]

    def missing(self) -> dict[str, int]:
        """Messages of streams and feeds that are missing for good; pages are polled, and polls may fail."""
        streams = [one for one in self.sources() if not one[0].startswith(POLLED)]
        return {source: missing for source, _, missing, _ in streams if missing}

    def _stored_since(self, admitted_unix_seconds: float) -> Collection[str]:
        """Requests served that were admitted since."""
        with self._reader._database.reading() as cursor:
            found = cursor.execute(
                "SELECT request_id FROM requests WHERE status = 'served' AND attempt = 0 AND hour >= ? "
                "AND admitted_unix_seconds >= ?",
                [admitted_unix_seconds // 3600, admitted_unix_seconds],
            ).fetchall()
        return [name for (name,) in found]

    def heard(self) -> list[Heard]:
        """How far each engine's records have come, as the store tells: an entry an interval."""
        with self._reader._database.reading() as cursor:
            found = cursor.execute(
                "SELECT owner, last_sequence, since_unix_seconds FROM coverage "
                "WHERE kind = 'vllm_hook' AND last_sequence IS NOT NULL"
            ).fetchall()
        numbers = {CONFIG.replica_name(number): number for number in range(REPLICAS)}
        return [Heard(numbers[owner.split("/")[2]], last, since) for owner, last, since in found]

    def wait_until_caught_up(self, patience_seconds: float) -> float | None:
        """Seconds until the store had all that had been sent when this was asked; None: it never came.

        What dead engines took with them is not waited for, once it is known that it cannot come.
        """
        until, began, took = time.time(), time.monotonic(), 0.0
        while time.monotonic() - began < patience_seconds:
            if any(place.at_unix_seconds <= until for place in self._look()):
                took = time.monotonic() - began
            if not self.handed_over.waiting(until):
                return took
            time.sleep(0.1)
        return None

    def settle(self, patience_seconds: float) -> float | None:
        """Let no new sessions begin; seconds until the store has what was sent and is not lost; None: never.

        A client that thinks for minutes may still ask in between: then it is looked once more.
        """
        self.testbed.ended.set()
        began = time.monotonic()
        while time.monotonic() - began < patience_seconds:
            self._look()
            sent, stored = self.testbed.sent(), self.stored()
            lost = self.handed_over.splits(self.handed_over.lost)
            if stored is not None and stored + lost == sent == self.testbed.sent():
                return time.monotonic() - began
            time.sleep(0.2)
        return None

    def _look(self) -> list[Place]:
        try:
            return self.handed_over.look()
        except StoreUnusable:
            return []
