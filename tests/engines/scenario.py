"""A pod as a user would run it: a real engine with probe and KV events, our exporter and our collector.

Each is a process of its own and comes back at its old addresses when it was killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines.environment import Environment
from tests.engines.page import Page, prompt_tokens
from tests.engines.server import (
    BLOCK_TOKENS,
    NUM_BLOCKS,
    EngineServer,
    eventually,
    kv_events_config,
    transfer_config,
)
from tests.engines.watching import Copies, replayed_copies
from tests.engines.workload import Workload
from tests.exporting import Scrape
from tests.ports import free_ports
from tierscope.cli.processes import Child
from tierscope.cli.settings_file import write_settings
from tierscope.domain.errors import BadInput, StoreUnusable
from tierscope.domain.identity import EngineId, SourceKind
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.settings import (
    CollectorSettings,
    EngineSettings,
    ExporterSettings,
    FeedSource,
    Settings,
)
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.registry import metrics
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.serving import RemoteReader, socket_path

NAMESPACE, ENDPOINT, REPLICA = "tests", "tiny", "pod"
EXPORTER = "node"
POLL_SECONDS = 0.5
READING_SECONDS = 60.0
SETTLE_SECONDS = 60.0
ALL_TIME = TimeSpan(0.0, 1e11)

STREAMS = (SourceKind.VLLM_EVENTS, SourceKind.VLLM_HOOK)

USABLE_BLOCKS = NUM_BLOCKS - 1
"""Blocks that can hold a prefix: all but vLLM's null block."""
MOST_BLOCKS = 31
"""The longest prompt of whole blocks that the model takes with one token after it."""


@dataclass(frozen=True)
class Life:
    """What an engine said of itself when it was at rest: its page, and the KV events of each rank."""

    page: Page
    copies: tuple[Copies, ...]

    @property
    def tokens(self) -> TokenSplit:
        """Its own prompt counters, over all ranks."""
        return prompt_tokens(self.page)


@dataclass(frozen=True)
class Addresses:
    """Where a pod's parts listen. The streams of rank r are r ports further, as vLLM has it."""

    api: int
    feed: int
    events: int
    events_replay: int
    hook: int
    hook_replay: int

    @classmethod
    def free(cls, ranks: int) -> Addresses:
        """Addresses that nobody uses at the moment."""
        first = free_ports(3 + 4 * ranks)
        streams = (first + 3 + number * ranks for number in range(4))
        return cls(first, first + 1, *streams)


class Deployment:
    """Engine, exporter and collector of one pod; a context manager. Everything reads before it is entered."""

    def __init__(
        self,
        environment: Environment,
        folder: Path,
        *,
        ranks: int = 1,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.ranks = range(ranks)
        self.store = folder / "store.duckdb"
        self._folder = folder
        self._poll_seconds = poll_seconds
        self._at = Addresses.free(ranks)
        parallel = ("--data-parallel-size", str(ranks)) if ranks > 1 else ()
        self.engine = EngineServer(
            environment, folder, arguments=(*self._streams(), *parallel), port=self._at.api
        )
        self.page_url: Callable[[int], str] = lambda _: f"{self.engine.url}/metrics"
        """Where each life of the exporter reads the engine's page."""
        self._exporter_lives = 0
        self.ended: list[Life] = []
        """Lives of the engine that were at rest before they were killed."""
        self._told_before = [0] * ranks
        """Batches of events, by rank, told to an exporter or by an engine that is no more."""
        self._fills = 0
        self._open = ExitStack()

    def __enter__(self) -> Deployment:
        with ExitStack() as opening:
            self.start_collector()
            opening.callback(self._stop_collector)
            self.reader = opening.enter_context(closing(RemoteReader(socket_path(self.store))))
            self.start_exporter()
            opening.callback(self._stop_exporter)
            opening.enter_context(self.engine)
            self.await_reading()
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # What a test asks.

    def settle(self) -> Life:
        """Wait until the store has what the engine says, as far as it will; the engine must be at rest.

        Nothing is asserted: where the two never agree, what is returned differs from the store.
        """
        before = sum((life.tokens for life in self.ended), NO_TOKENS)

        def agree() -> bool:
            try:
                counted = before + prompt_tokens(self.page())
            except BadInput:  # a page is not one instant
                return False
            return self._told() == (counted, counted)

        eventually(agree, SETTLE_SECONDS, pause_seconds=0.1)
        copies = tuple(replayed_copies(_local(self._at.events_replay + rank)) for rank in self.ranks)
        due = [before + now.batches for before, now in zip(self._told_before, copies, strict=True)]
        eventually(lambda: self._covered() >= due, SETTLE_SECONDS, pause_seconds=0.1)
        resident = [now.distinct for now in copies]
        eventually(lambda: self._resident() == resident, SETTLE_SECONDS, pause_seconds=0.1)
        return Life(self.page(), copies)

    @contextmanager
    def stored(self) -> Iterator[DuckDbReader]:
        """Stop the collector for as long as its file is read."""
        self._stop_collector()
        try:
            with closing(DuckDbReader.open(self.store)) as reader:
                yield reader
        finally:
            self.start_collector()

    def page(self) -> Page:
        """The engine's Prometheus page."""
        return Page(self.engine.metrics())

    def scrape(self) -> Scrape:
        """The exporter's page."""
        return Scrape(self._exporter.addresses["metrics_url"])

    def engine_id(self, rank: int) -> EngineId:
        """How the exporter calls one rank."""
        return EngineId(NAMESPACE, ENDPOINT, REPLICA, rank)

    # What a test does.

    def fill(self) -> None:
        """Fill every block of every rank with a prefix that was never there, and so evict all others.

        A block that is done with goes to the end of the row of free ones, so prompts of as many blocks as
        there are take each of them once.
        """
        for rank in self.ranks:
            self._fills += 1
            headers = {"X-data-parallel-rank": str(rank)}
            with Workload(self.engine.url, seed=-self._fills, headers=headers) as workload:
                for first in range(0, USABLE_BLOCKS, MOST_BLOCKS):
                    blocks = min(MOST_BLOCKS, USABLE_BLOCKS - first)
                    prompt = workload.words(first, blocks * BLOCK_TOKENS)
                    assert workload.complete("fill", prompt, max_tokens=1).status == 200

    def kill_engine(self, life: Life) -> None:
        """Kill the engine, which was at rest in this state, and start it again."""
        self.ended.append(life)
        self._note_told(life)
        self.engine.kill()
        self.engine.start()
        self.engine.wait()

    def kill_exporter(self, life: Life) -> None:
        """Kill the exporter, with the engine at rest in this state: nobody reads it any more."""
        self._note_told(life)
        self.end_exporter()

    def end_exporter(self) -> None:
        """Kill the exporter, whatever it is at."""
        os.kill(self._exporter.pid, signal.SIGKILL)
        self._stop_exporter()

    def start_exporter(self) -> None:
        """Start the exporter."""
        self._exporter_lives += 1
        self._exporter = Child(["export", "--config", str(self._settings())])

    def end_collector(self) -> None:
        """Kill the collector, whatever it is at."""
        os.kill(self._collector.pid, signal.SIGKILL)
        self._stop_collector()

    def start_collector(self) -> None:
        """Start the collector."""
        self._collector = Child(["collect", "--config", str(self._settings())])

    def await_reading(self) -> None:
        """Wait until the exporter reads every source of every rank."""
        due = {f"{kind}:{self.engine_id(rank)}" for kind in STREAMS for rank in self.ranks}
        due.add(f"{SourceKind.VLLM_METRICS}:{self.engine_id(0)}")

        def reads_all() -> bool:
            up = self.scrape().sums(metrics.SOURCE_UP, "source")
            return {source for source, value in up.items() if value} >= due

        assert eventually(reads_all, READING_SECONDS, pause_seconds=0.1), "the exporter does not read it all"

    # How.

    def _stop_collector(self) -> None:
        self._collector.stop()

    def _stop_exporter(self) -> None:
        self._exporter.stop()

    def _told(self) -> tuple[TokenSplit, TokenSplit] | None:
        """The store's sums over records and over the engine's counters; None while it cannot answer."""
        try:
            return (
                self.reader.totals(NAMESPACE, ENDPOINT, ALL_TIME).tokens,
                self.reader.engine_totals(NAMESPACE, ENDPOINT, ALL_TIME).tokens,
            )
        except StoreUnusable:
            return None

    def _note_told(self, life: Life) -> None:
        for rank in self.ranks:
            self._told_before[rank] += life.copies[rank].batches

    def _covered(self) -> list[int]:
        """Batches of events, by rank, that the store covers; a batch's own rows are in it before that."""
        try:
            found = self.reader.coverage(ALL_TIME)
        except StoreUnusable:
            return []
        received = {str(coverage.source): coverage.received for coverage in found}
        return [received.get(f"{SourceKind.VLLM_EVENTS}:{self.engine_id(rank)}", 0) for rank in self.ranks]

    def _resident(self) -> list[int | None]:
        """Blocks in the GPU caches, by rank, as of the last reading in the store."""
        try:
            found = self.reader.samples(NAMESPACE, ENDPOINT, ALL_TIME).samples
        except StoreUnusable:
            return []
        last = {sample.holder: sample.used_blocks for sample in found if sample.tier is Tier.L0}
        return [last.get(str(self.engine_id(rank))) for rank in self.ranks]

    def _streams(self) -> tuple[str, ...]:
        """The flags that make the engine speak."""
        probe = {"endpoint": _local(self._at.hook), "replay_endpoint": _local(self._at.hook_replay)}
        return (
            *transfer_config("ObservingConnector", tierscope=probe),
            *kv_events_config(self._at.events, self._at.events_replay),
        )

    def _settings(self) -> Path:
        """Write everybody's settings; return their file."""
        feed = [_local(self._at.feed), _local(self._at.feed + 1)]
        exporter = ExporterSettings(
            name=EXPORTER,
            engines=tuple(self._engine_settings(rank) for rank in self.ranks),
            poll_seconds=self._poll_seconds,
            feed_endpoint=feed[0],
            feed_replay_endpoint=feed[1],
            page_state_file=str(self._folder / "page.json"),
        )
        collector = CollectorSettings(
            store_path=str(self.store),
            feeds=(FeedSource(name=EXPORTER, endpoint=feed[0], replay_endpoint=feed[1]),),
            flush_seconds=0.2,
        )
        path = self._folder / "settings.yaml"
        write_settings(Settings(exporter=exporter, collector=collector), path)
        return path

    def _engine_settings(self, rank: int) -> EngineSettings:
        return EngineSettings(
            namespace=NAMESPACE,
            endpoint=ENDPOINT,
            replica=REPLICA,
            rank=rank,
            metrics_url=self.page_url(self._exporter_lives),
            events_endpoint=_local(self._at.events + rank),
            events_replay_endpoint=_local(self._at.events_replay + rank),
            hook_endpoint=_local(self._at.hook + rank),
            hook_replay_endpoint=_local(self._at.hook_replay + rank),
        )


def _local(port: int) -> str:
    return f"tcp://127.0.0.1:{port}"
