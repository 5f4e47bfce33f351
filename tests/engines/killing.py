"""A real run in which engine, exporter and collector are killed at seeded points and started again.

The engine's page is read through a relay, so that afterwards it is known what each life of the exporter saw
of each life of the engine.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import httpx

from tests.engines.environment import Environment
from tests.engines.page import Page, prompt_tokens
from tests.engines.scenario import ALL_TIME, ENDPOINT, NAMESPACE, SETTLE_SECONDS, Deployment
from tests.engines.server import eventually
from tests.engines.workload import Sent, Workload
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.window import TimeSpan
from tierscope.registry.metrics import REQUEST_TOKENS

MORTALS = ("engine", "exporter", "collector")
CLIENTS = 3
PATIENCE_SECONDS = 240.0


@dataclass(frozen=True)
class Reading:
    """One page of the engine as one life of the exporter saw it: its own prompt counters."""

    at_unix_seconds: float
    exporter_life: int
    created_unix_seconds: float
    tokens: TokenSplit


@dataclass(frozen=True)
class Answered:
    """A request that its client has the answer to."""

    sent: Sent
    at_unix_seconds: float


@dataclass
class EngineLife:
    """From the start of an engine's processes to their death."""

    began_unix_seconds: float
    killed_unix_seconds: float | None = None


@dataclass
class Killed:
    """What is known of a run besides its store."""

    store: Path
    engines: list[EngineLife] = field(default_factory=list)
    exporters: list[float] = field(default_factory=list)
    """When each life of the exporter was started."""
    collectors: int = 1
    """Lives of the collector."""
    answered: list[Answered] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    pages: list[TokenSplit] = field(default_factory=list)
    """What the last page of each life of the exporter had counted of requests."""


class Relay:
    """Passes an engine's page on at `/<life of the exporter>/metrics`, and keeps its prompt counters."""

    def __init__(self, url: str) -> None:
        self.url_of_engine = url
        self._lock = threading.Lock()
        self._pages: list[tuple[float, int, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"relay": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def keep(self, life: int, page: str) -> None:
        """Remember what is needed of a page."""
        lines = [line for line in page.splitlines() if line.startswith("vllm:prompt_tokens")]
        with self._lock:
            self._pages.append((time.time(), life, "\n".join(lines) + "\n"))

    def page_url(self, life: int) -> str:
        """Where one life of the exporter reads the page."""
        return f"{self.url}/{life}/metrics"

    def readings(self) -> list[Reading]:
        """All pages that were passed on, in order."""
        with self._lock:
            return [Reading(at, life, *_prompt_counters(Page(page))) for at, life, page in self._pages]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    relay: Relay

    def do_GET(self) -> None:
        try:
            page = httpx.get(f"{self.relay.url_of_engine}/metrics", timeout=5).raise_for_status().text
        except httpx.HTTPError as error:
            self.send_error(502, explain=str(error))
            return
        body = page.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.relay.keep(int(self.path.split("/")[1]), page)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Clients:
    """A few clients that ask without end, and wait while nobody answers."""

    def __init__(self, workload: Workload, *, seed: int) -> None:
        self._workload = workload
        self._seed = seed
        self._numbers = count()
        self._stopping = threading.Event()
        self.answered: list[Answered] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every client have its last answer."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            rng = random.Random(f"{self._seed} {next(self._numbers)}")
            subject = self._workload.words(f"subject {rng.randrange(12)}", rng.randrange(40, 320))
            question = self._workload.words(rng.random(), rng.randrange(5, 60))
            try:
                sent = self._workload.complete(
                    "kill", f"{subject} {question}", max_tokens=rng.randrange(1, 40)
                )
            except httpx.HTTPError:
                self._stopping.wait(0.2)
                continue
            if sent.status == 200:
                self.answered.append(Answered(sent, time.time()))


class Run:
    """A deployment whose parts are killed while clients ask; a context manager."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self._pod = Deployment(environment, folder)
        self._relay = Relay(self._pod.engine.url)
        self._pod.page_url = self._relay.page_url
        self._open = ExitStack()
        self.killed = Killed(self._pod.store)

    def __enter__(self) -> Run:
        with ExitStack() as opening:
            opening.callback(self._relay.close)
            self.killed.exporters.append(time.time())
            self.killed.engines.append(EngineLife(time.time()))
            opening.enter_context(self._pod)
            workload = opening.enter_context(Workload(self._pod.engine.url))
            self.clients = Clients(workload, seed=1)
            opening.callback(self.clients.stop)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def kill_engine(self) -> None:
        """Kill the engine with all its processes while it answers, and start it again."""
        engine = self._pod.engine
        engine.kill()
        died = self.killed.engines[-1].killed_unix_seconds = time.time()
        self.killed.engines.append(EngineLife(died))
        engine.start()
        engine.wait()

    def kill_exporter(self) -> None:
        """Kill the exporter, and start it again."""
        self._read_page()
        self._pod.end_exporter()
        self.killed.exporters.append(time.time())
        self._pod.start_exporter()

    def kill_collector(self) -> None:
        """Kill the collector, and start it again."""
        self._pod.end_collector()
        self.killed.collectors += 1
        self._pod.start_collector()

    def await_answers(self, more: int) -> None:
        """Wait until so many more requests were answered."""
        wanted = len(self.clients.answered) + more
        came = eventually(lambda: len(self.clients.answered) >= wanted, PATIENCE_SECONDS, pause_seconds=0.01)
        assert came, f"the engine stopped answering:\n{self._pod.engine.log_end()}"

    def await_reading(self) -> None:
        """Wait until the exporter reads every source of the engine."""
        self._pod.await_reading()

    def _read_page(self) -> None:
        self.killed.pages.append(self._pod.scrape().split(REQUEST_TOKENS))

    def settle(self) -> None:
        """Stop the clients; wait until the store has what the engine counts, as far as it will."""
        self.clients.stop()
        counted = prompt_tokens(self._pod.page())
        life = TimeSpan(self.killed.engines[-1].began_unix_seconds, time.time() + 1)

        def has_all() -> bool:
            try:
                served = self._pod.reader.totals(NAMESPACE, ENDPOINT, life).tokens
                counters = self._pod.reader.engine_totals(NAMESPACE, ENDPOINT, ALL_TIME).tokens
            except StoreUnusable:
                return False
            pages = last_readings(self._relay.readings()).values()
            read = sum((page.tokens for page in pages), NO_TOKENS)
            return served == counted == self._relay.readings()[-1].tokens and counters == read

        eventually(has_all, SETTLE_SECONDS, pause_seconds=0.5)
        self._read_page()
        self.killed.answered = list(self.clients.answered)
        self.killed.readings = self._relay.readings()


def run_with_kills(environment: Environment, folder: Path, *, kills: int, seed: int) -> Killed:
    """Kill engine, exporter and collector in seeded order, as often, after a seeded number of answers."""
    rng = random.Random(seed)
    order = [MORTALS[number % len(MORTALS)] for number in range(kills)]
    rng.shuffle(order)
    with Run(environment, folder) as run:
        kill = dict(zip(MORTALS, (run.kill_engine, run.kill_exporter, run.kill_collector), strict=True))
        run.await_answers(1)
        for number, mortal in enumerate(order):
            run.await_reading()
            run.await_answers(rng.randrange(1, 40))
            threading.Event().wait(rng.uniform(0, 0.3))  # anywhere within a request, a step, a poll
            print(f"kill {number + 1} of {kills}: {mortal}")
            kill[mortal]()
        run.await_reading()
        run.await_answers(20)
        run.settle()
    return run.killed


def last_readings(readings: list[Reading]) -> dict[float, Reading]:
    """The last page that anyone saw of each life of the engine, by when its counters began."""
    return {reading.created_unix_seconds: reading for reading in readings}


def _prompt_counters(page: Page) -> tuple[float, TokenSplit]:
    return page.amount("vllm:prompt_tokens_created"), prompt_tokens(page)
