"""What chaos is let loose on: a testbed, two exporters, two servers on one lake, PostgreSQL, and a keeper.

Exporters and servers are started again when they end, as a kubelet would; nobody does anything else.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests import lakes
from tests.load.namespaces import name, tmpfs
from tests.ports import free_port
from tests.processes import alive, running
from tests.staged import Staged, feed_to_be, settings_file
from tierscope.cli.output import stderr
from tierscope.cli.processes import Restarter
from tierscope.domain.errors import StoreUnusable, TierscopeError
from tierscope.domain.requests import TokenSplit
from tierscope.domain.settings import CollectorSettings, EngineSettings, FeedSource, Settings
from tierscope.domain.window import TimeSpan
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.testbed.config import Mix, ServiceTimes, TestbedConfig
from tierscope.testbed.testbed import Testbed
from tierscope.testbed.workload.request import Request, Workload

ALL_TIME = TimeSpan(0.0, 1e11)
REPLICAS = 4
EXPORTERS = 2
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
    """A testbed whose traffic can be let run out while its streams go on."""

    def __init__(self, config: TestbedConfig) -> None:
        super().__init__(config)
        self.ended = threading.Event()

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


class Stage(Staged):
    """Everything that runs; entered, traffic flows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopping = threading.Event()
        self.testbed = Traffic(CONFIG)
        self.names = [f"engine-{number}.chaos" for number in range(REPLICAS)]
        self.processes: dict[str, Restarter] = {}

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        super().__exit__()

    def _start(self, opened: ExitStack) -> None:
        self.postgres = opened.enter_context(lakes.postgres(crashes=True))
        self.disk = opened.enter_context(tmpfs(self._folder / "disk", DISK_BYTES))
        self.lake = self.postgres.lake(self.disk, lease_seconds=LEASE_SECONDS)
        opened.enter_context(self.testbed)
        name(self.names)
        self.engine_ports = {f"exporter-{number}": [] for number in range(EXPORTERS)}
        feeds = [self._start_exporter(opened, number) for number in range(EXPORTERS)]
        self.feed_ports = [
            int(urlsplit(one).port or 0) for feed in feeds for one in (feed.endpoint, feed.replay_endpoint)
        ]
        for number in range(SERVERS):
            self._start_server(opened, number, feeds)
        self._reader = DuckDbReader.open(self.lake.name)
        opened.callback(self._reader.close)
        keeper = threading.Thread(target=self._restart_what_ended, daemon=True)
        keeper.start()
        opened.callback(keeper.join)
        opened.callback(self._stopping.set)

    def _start_exporter(self, opened: ExitStack, number: int) -> FeedSource:
        told, who = self.testbed.settings(), f"exporter-{number}"
        mine = slice(number * REPLICAS // EXPORTERS, (number + 1) * REPLICAS // EXPORTERS)
        engines = [
            self._by_name(engine, self.names[mine.start + index], who)
            for index, engine in enumerate(told.engines[mine])
        ]
        feed = feed_to_be(who)
        settings = dataclasses.replace(
            told,
            name=who,
            engines=tuple(engines),
            lmcache=told.lmcache[mine],
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
        changed = {}
        for field in dataclasses.fields(engine):
            value = getattr(engine, field.name)
            if isinstance(value, str) and "://127.0.0.1:" in value:
                changed[field.name] = value.replace("127.0.0.1", host)
                self.engine_ports[who].append(int(urlsplit(value).port or 0))
        return dataclasses.replace(engine, **changed)

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
                if not self._stopping.is_set():
                    one.check()

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

    def caught_up(self, prompt_tokens: int) -> bool:
        """Whether the store has so many prompt tokens."""
        found = self.stored()
        return found is not None and found.prompt >= prompt_tokens

    def wait_until_caught_up(self, patience_seconds: float) -> float | None:
        """Seconds until the store has all that had been sent when this was asked; None: it never came."""
        sent, began = self.testbed.sent().prompt, time.monotonic()
        while time.monotonic() - began < patience_seconds:
            if self.caught_up(sent):
                return time.monotonic() - began
            time.sleep(0.1)
        return None

    def settle(self, patience_seconds: float) -> float | None:
        """Let no new sessions begin; seconds until the store has exactly what was sent, None: it never had.

        A client that thinks for minutes may still ask in between: then it is looked once more.
        """
        self.testbed.ended.set()
        began = time.monotonic()
        while time.monotonic() - began < patience_seconds:
            sent = self.testbed.sent()
            if self.stored() == sent == self.testbed.sent():
                return time.monotonic() - began
            time.sleep(0.2)
        return None
