"""Chains that a real engine and cache server left in our store, replayed by the simulator at their sizes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.engines import hook
from tests.engines.environment import Environment
from tests.engines.lmcache_environment import LMCacheEnvironment
from tests.engines.lmcache_records import read_settled
from tests.engines.lmcache_server import CHUNK_TOKENS, LMCacheServer
from tests.engines.model import SPECIAL
from tests.engines.page import Page
from tests.engines.replica import CHUNK_BYTES, Replica, exporter_of, in_front_of
from tests.engines.server import BLOCK_TOKENS, MAX_SEQUENCES, EngineServer
from tests.engines.workload import Workload
from tests.exporting import Scrape, await_true, first_feed_batches
from tests.recorded_engines import (
    Admission,
    looked,
    points_off,
    split_of,
    step_seconds,
    stored_admissions,
    trace_of,
)
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.split import Split
from tierscope.domain.window import TimeSpan
from tierscope.registry import metrics
from tierscope.sim.fleet import TierSizes
from tierscope.sim.jobs import StepTimes
from tierscope.sim.serving import Fleet, serve
from tierscope.storage.store import Store

L1_CHUNKS = 40
WATERMARK_RATIO, EVICTION_RATIO = 0.8, 0.25
SESSIONS, TURNS = 12, 6
DOCUMENTS, QUESTIONS = 8, 4
CLIENTS = 3
THINKING_SECONDS = 0.1
"""Between two requests of a client, as the cache server makes room only now and then."""
ENDLESS = 1_000_000
AT_ONCE_SECONDS = 1e-5
MOST_POINTS_OFF, MOST_POINTS_OFF_TOGETHER = 1.0, 2.0
NEVER_SAID = {str(number): -100 for number in range(len(SPECIAL))}
"""Words that are not printed: a session could not repeat its answer word by word."""


@dataclass(frozen=True)
class Run:
    """What was admitted, what tiers had of it by the store, and how large the two servers said they are."""

    admissions: list[Admission]
    l0_blocks: int
    l1_chunks: int
    looked_unix_seconds: float
    step_seconds: float
    engine: Page
    evicted_chunks: int


def conversation(workload: Workload, name: str) -> Iterator[bool]:
    """A session whose every turn repeats all that was said before, answers among it."""
    rng = random.Random(name)
    said: list[dict[str, object]] = []
    for turn in range(TURNS):
        said.append({"role": "user", "content": workload.words(f"{name} {turn}", rng.randint(15, 40))})
        answer = workload.chat(
            name, said, max_tokens=rng.randint(4, 40), session_id=name, logit_bias=NEVER_SAID
        )
        said.append({"role": "assistant", "content": answer.text})
        yield True


def questions(workload: Workload, document: int) -> Iterator[bool]:
    """Several questions about one document, and sometimes only the document."""
    rng = random.Random(document)
    text = workload.words(f"document {document}", 200 + 40 * (document % 5))
    for number in range(QUESTIONS):
        question = workload.words(f"question {document} {number}", rng.choice([0, 8, 20, 33]))
        workload.complete("document", f"{text} {question}".strip(), max_tokens=rng.randint(1, 8))
        yield True


def in_turn(seed: str, parts: list[Iterator[bool]]) -> None:
    """Take a step of one part, then of another, until all have ended."""
    rng = random.Random(seed)
    while parts:
        part = rng.choice(parts)
        if not next(part, False):
            parts.remove(part)
        time.sleep(THINKING_SECONDS)


def one_by_one(workload: Workload) -> None:
    """One client asks for everything."""
    sessions = [conversation(workload, f"session {number}") for number in range(SESSIONS)]
    in_turn("one by one", sessions + [questions(workload, number) for number in range(DOCUMENTS)])


def together(workload: Workload) -> None:
    """Several clients at once, each with its own sessions, about the same documents."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = []
        for client in range(CLIENTS):
            sessions = [conversation(workload, f"session {n}") for n in range(client, SESSIONS, CLIENTS)]
            asked = [questions(workload, number) for number in range(DOCUMENTS)]
            clients.append(pool.submit(in_turn, f"client {client}", sessions + asked))
        for each in clients:
            each.result()


@pytest.fixture(scope="module", params=[one_by_one, together], ids=lambda ask: ask.__name__)
def ask(request) -> Callable[[Workload], None]:
    return request.param


@pytest.fixture(scope="module")
def run(ask, vllm_lmcache, lmcache, tmp_path_factory) -> Run:
    """An engine of 63 blocks in front of a server of 40 chunks, which both overflow many times over."""
    return recorded(ask, vllm_lmcache, lmcache, tmp_path_factory.mktemp("chains"))


def recorded(
    ask: Callable[[Workload], None], vllm: Environment, lmcache: LMCacheEnvironment, folder: Path
) -> Run:
    """Serve a workload, and read back what the store has of it."""
    addresses = folder / "engine-probe.json"
    with (
        LMCacheServer(
            lmcache, folder, l1_chunks=L1_CHUNKS, chunk_bytes=CHUNK_BYTES, watermark_ratio=WATERMARK_RATIO
        ) as cache,
        EngineServer(vllm, folder, arguments=in_front_of(cache, addresses)) as engine,
        exporter_of(Replica("pod-0", "node", hook.addresses(addresses), engine, cache)) as exporter,
        Workload(engine.url) as workload,
    ):
        ask(workload)
        cache_records = read_settled(cache, hook.addresses(cache.addresses))
        engine_records = hook.read_all(hook.addresses(addresses))
        admitted = sum(record["t"] == "admit" for record in engine_records)

        def told() -> bool:
            page = Scrape(exporter.addresses.metrics_url)
            return sum(page.sums(metrics.REQUESTS, "status").values()) == admitted

        await_true(told, f"{admitted} admissions were told")
        shown = Scrape(exporter.addresses.metrics_url)
        batches = first_feed_batches(exporter, int(shown.sums(metrics.FEED_BATCHES)[()]))
        with Store.open(folder / "store.duckdb", clock=time.time) as store:
            store.append(batches)
            window = store.reader().window("ns", "chat", TimeSpan(0.0, 1e11))
        l1 = cache.status()["storage_manager"]["l1_managers"]["_default"]
        page = Page(engine.metrics())
        return Run(
            stored_admissions(window, engine_records),
            int(page.label("vllm:cache_config_info", "num_gpu_blocks")) - 1,
            l1["memory_total_bytes"] // CHUNK_BYTES,
            looked(cache_records),
            step_seconds(engine_records),
            page,
            sum(
                len(record["chunks"])
                for record in cache_records
                if record["t"] == "l1_evicted" and record["reason"] == "capacity"
            ),
        )


def replayed(run: Run, step_seconds: float) -> Split:
    """What the simulator says the tiers had, with engines that take so long for a step, of whatever size."""
    trace = trace_of(run.admissions, BLOCK_TOKENS, run.looked_unix_seconds)
    fleet = Fleet(
        replicas=1,
        sizes=TierSizes(l0_blocks=run.l0_blocks, l1_chunks=run.l1_chunks, l2_chunks=ENDLESS),
        policy=RoutingPolicy.ROUNDROBIN,
        chunk_tokens=CHUNK_TOKENS,
        keeps_loads=False,
        l1_watermark_ratio=WATERMARK_RATIO,
        l1_eviction_ratio=EVICTION_RATIO,
        times=StepTimes(
            step_seconds=step_seconds,
            prefill_seconds_per_token=0.0,
            attention_seconds_per_pair=0.0,
            context_seconds_per_token=0.0,
            most_running=MAX_SEQUENCES,
        ),
    )
    return serve(trace, fleet, np.zeros(trace.requests, np.int32)).split


def test_both_tiers_overflowed_and_every_tier_served(run):
    """L0 was asked for more than twice what it holds, L1 dropped more than it holds."""
    blocks = {name for one in run.admissions for name in one.block_hashes}

    assert len(blocks) > 2 * run.l0_blocks
    assert run.evicted_chunks > run.l1_chunks
    assert min(part.sum() for part in split_of(run.admissions)) > 0


def test_the_store_has_what_the_engine_counted(run):
    """0 tokens off, so that what is replayed is what was served."""
    by_source = "vllm:prompt_tokens_by_source_total"
    l0, l1, l2, computed = (int(part.sum()) for part in split_of(run.admissions))

    assert l0 == run.engine.total(by_source, source="local_cache_hit")
    assert l1 + l2 == run.engine.total(by_source, source="external_kv_transfer")
    assert computed == run.engine.total(by_source, source="local_compute")


def test_each_tier_is_foretold_at_the_real_sizes(run, ask):
    """To the token in L0, and within a point in L1 and L2, where requests do not overlap.

    Where they do, who pins and stores before whom depends on times; the model has one for every step.
    """
    at_once = ask is one_by_one
    real = split_of(run.admissions)
    off = points_off(replayed(run, AT_ONCE_SECONDS if at_once else run.step_seconds), real)
    print(
        f"\n{ask.__name__}: {len(run.admissions)} requests of {sum(real).sum()} tokens, off by {off} points"
    )

    if at_once:
        assert off["l0"] == 0
    assert max(map(abs, off.values())) <= (MOST_POINTS_OFF if at_once else MOST_POINTS_OFF_TOGETHER)
