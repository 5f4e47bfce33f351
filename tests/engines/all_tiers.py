"""A workload on real vLLM in front of a real LMCache server, and what both, our exporter and store say."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporters.process import Exporter
from tests.engines import hook
from tests.engines.environment import Environment
from tests.engines.lmcache_environment import LMCacheEnvironment
from tests.engines.lmcache_records import read_settled
from tests.engines.lmcache_server import LMCacheServer
from tests.engines.page import Page
from tests.engines.replica import CHUNK_BYTES, Replica, exporter_of, in_front_of
from tests.engines.server import EngineServer
from tests.engines.workload import Sent, Workload
from tests.exporting import Scrape, await_true, first_feed_batches
from tests.otlp_receiver import OtlpReceiver
from tierscope.domain.requests import RequestRecord, TokenSplit
from tierscope.domain.window import TimeSpan
from tierscope.registry import metrics
from tierscope.storage.store import Store

L1_CHUNKS = 80
RETURNING_TOKENS = 270
TRACING = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "200"}


@dataclass(frozen=True)
class Split:
    """Where one admission's tokens came from, by the rule for an engine's and LMCache's records together.

    LMCache looks a prompt up from its start, also what the engine has itself. So of what L1 has, the engine
    loaded the part beyond its own; the rest of what it loaded was from L2.
    """

    rid: str
    attempt: int
    prompt: int
    local: int
    external: int
    lookup: hook.Record | None

    @property
    def l1(self) -> int:
        """Tokens loaded from L1."""
        found = self.lookup["l1_hit_tokens"] if self.lookup else 0
        return max(0, min(found, self.local + self.external) - self.local) if self.external else 0

    @property
    def l2(self) -> int:
        """Tokens loaded from L2."""
        return self.external - self.l1


@dataclass(frozen=True)
class Run:
    """A workload, both probes' records, both servers' pages, and what exporter and store made of it all."""

    sent: list[Sent]
    engine: list[hook.Record]
    cache: list[hook.Record]
    engine_page: Page
    cache_page: Page
    shown: Scrape
    rows: list[RequestRecord]
    stored: TokenSplit
    spans: list[Span]
    """The exporter's and the engine's."""

    def of(self, kind: str) -> list[hook.Record]:
        """Return LMCache's records of a kind."""
        return [record for record in self.cache if record["t"] == kind]

    @cached_property
    def splits(self) -> list[Split]:
        """Every admission with its lookup: the k-th of a request with the k-th."""
        lookups = {(record["rid"], record["k"]): record for record in self.of("lookup")}
        return [
            Split(
                record["rid"],
                record["attempt"],
                record["prompt"],
                record["local"],
                record["external"],
                lookups.get((record["rid"], record["attempt"])),
            )
            for record in self.engine
            if record["t"] == "admit"
        ]

    @cached_property
    def counted(self) -> list[Split]:
        """First admissions of requests that had a token: those in the engine's counters."""
        reached = {record["rid"] for record in self.engine if record["t"] == "first"}
        return [split for split in self.splits if split.attempt == 0 and split.rid in reached]


def back_from_l1(workload: Workload) -> None:
    """A prompt returns after others took its place in L0, while L1 still has all of them."""
    prompt = workload.words("returning", RETURNING_TOKENS)
    workload.complete("there", prompt, max_tokens=2)
    for number in range(4):
        workload.complete("between", workload.words(f"between {number}", 550), max_tokens=2)
    workload.complete("back", prompt, max_tokens=2)


def back_from_a_pool_with_a_hole(workload: Workload, cache: LMCacheServer) -> None:
    """It returns once more, when only L2 has it, and L2 lost its third chunk as a pool loses files."""
    records = read_settled(cache, hook.addresses(cache.addresses))
    lookup = next(record for record in records if record["t"] == "lookup" and "-there-" in record["rid"])
    (lost,) = cache.pool.glob(f"*{lookup['hashes'][2].hex()}.data")
    lost.unlink()
    workload.complete("holed", workload.words("returning", RETURNING_TOKENS), max_tokens=2)


def back_from_preemption(workload: Workload, engine: hook.Addresses) -> None:
    """Long answers until one that was preempted loads what it had.

    Which of them is preempted, and what L0 still has of it when its turn comes, is the engine's own race.
    """
    for _ in range(10):
        admissions = [record for record in hook.read_all(engine) if record["t"] == "admit"]
        if any(admission["attempt"] and admission["external"] for admission in admissions):
            return
        workload.long_answers()
    raise AssertionError("no preempted request loaded anything in ten rounds of long answers")


@dataclass(frozen=True)
class Deployment:
    """An exporter that reads both servers, and where both probes publish."""

    exporter: Exporter
    engine: hook.Addresses
    cache: LMCacheServer

    def told(self) -> tuple[list[hook.Record], list[hook.Record]]:
        """All records of both probes, once the exporter has read as many as they are."""
        cache = read_settled(self.cache, hook.addresses(self.cache.addresses))
        engine = hook.read_all(self.engine)
        admissions = sum(record["t"] == "admit" for record in engine)
        left_keys = sum(len(record["chunks"]) for record in cache if record["t"] == "l1_evicted")

        def caught_up() -> bool:
            page = Scrape(self.exporter.addresses.metrics_url)
            told = sum(page.sums(metrics.REQUESTS, "status").values())
            return told >= admissions and page.sums(metrics.EVICTED_BLOCKS, "tier")["l1"] >= left_keys

        await_true(caught_up, f"{admissions} admissions and {left_keys} evictions were told")
        return engine, cache


def spans_of(receiver: OtlpReceiver, sent: list[Sent], rows: list[RequestRecord]) -> list[Span]:
    """All spans, once each row has its own, sent after those inside it, and each answer its engine's."""
    answers = sum(request.answers for request in sent if request.cached_tokens is not None)

    def arrived() -> bool:
        names = Counter(span.name for span in receiver.spans)
        return names["kv.lookup"] >= len(rows) and names["llm_request"] >= answers

    await_true(arrived, f"spans of {len(rows)} admissions and of {answers} answers came")
    return receiver.spans


def run_all_tiers(vllm: Environment, lmcache: LMCacheEnvironment, folder: Path) -> Run:
    """Serve a workload that overflows L0 and L1 and comes back to what it had; each client sends a trace."""
    addresses = folder / "engine-probe.json"
    with (
        closing(OtlpReceiver()) as receiver,
        LMCacheServer(
            lmcache, folder, l1_chunks=L1_CHUNKS, chunk_bytes=CHUNK_BYTES, watermark_ratio=0.5
        ) as cache,
    ):
        arguments = (*in_front_of(cache, addresses), "--otlp-traces-endpoint", receiver.endpoint)
        with (
            EngineServer(vllm, folder, arguments=arguments, environ=TRACING) as engine,
            exporter_of(
                Replica("pod-0", "node", hook.addresses(addresses), engine, cache),
                otlp_endpoint=receiver.endpoint,
            ) as exporter,
            Workload(engine.url, traced=True) as workload,
        ):
            deployment = Deployment(exporter, hook.addresses(addresses), cache)
            back_from_l1(workload)
            workload.run()
            back_from_preemption(workload, deployment.engine)
            back_from_a_pool_with_a_hole(workload, cache)
            engine_records, cache_records = deployment.told()
            shown = Scrape(exporter.addresses.metrics_url)
            batches = first_feed_batches(exporter, int(shown.sums(metrics.FEED_BATCHES)[()]))
            with Store.open(folder / "store.duckdb", clock=time.time) as store:
                store.append(batches)
                stored = store.reader().totals("ns", "chat", TimeSpan(0.0, 1e11)).tokens
            rows = [row for batch in batches for row in batch.entries if isinstance(row, RequestRecord)]
            return Run(
                workload.sent,
                engine_records,
                cache_records,
                Page(engine.metrics()),
                Page(cache.metrics()),
                shown,
                rows,
                stored,
                spans_of(receiver, workload.sent, rows),
            )
