"""Two real replicas on one L2: what one computed the other loads, unless their servers hash differently."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engines.lmcache_server import CHUNK_TOKENS, LMCacheServer
from tests.engines.page import Page
from tests.engines.replica import exporter_of, replicas_on_one_pool
from tests.engines.server import MODEL_NAME, EngineServer, eventually
from tests.engines.workload import Workload
from tests.exporting import Scrape, await_true, first_feed_batches
from tierscope.advice.document import Finding, FindingKind
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import Deployment
from tierscope.domain.names import Beginning, beginning_of
from tierscope.domain.requests import RequestRecord
from tierscope.domain.window import TimeSpan
from tierscope.registry import metrics
from tierscope.storage.store import Store

L1_CHUNKS = 80
DOCUMENTS = 4
DOCUMENT_TOKENS = 270
CHUNKS = DOCUMENT_TOKENS // CHUNK_TOKENS
SECONDS = 60.0
ALL_TIME = TimeSpan(0.0, 1e11)

SEEDS = {
    "one hash": (((), ()), ("0", "0")),
    "two hashes": (((), ("--hash-algorithm", "builtin")), ("0", "1")),
}
"""Arguments of each server, and the seed of its own hash.

Seeds alone do not tell two servers apart: without vLLM the built-in hash is of numbers and of None, and in a
Python at a fixed address, as Debian's, that is the same under every seed.
"""


@dataclass(frozen=True)
class Run:
    """The same documents asked of one replica, then of the other."""

    engines: Sequence[Page]
    shown: Scrape
    rows: Sequence[RequestRecord]
    stored_l2_tokens: int
    said: str
    """The exporter's log."""
    advised: Mapping[FindingKind, Finding]
    """Findings of the advice on what the store holds."""

    def external(self, replica: int) -> float:
        """Tokens that an engine itself counts as loaded through its connector."""
        return self.engines[replica].total(
            "vllm:prompt_tokens_by_source_total", source="external_kv_transfer"
        )

    def beginnings_named_on_both(self) -> int:
        """Prompts of which both servers' names are in the rows."""
        named = filter(None, map(beginning_of, self.rows))
        return sum(len(servers) == 2 for servers in _servers_by_block(named).values())

    def findings(self) -> set[str]:
        """Sources with the finding."""
        return set(self.shown.sums(metrics.FINDING, "source", kind="hash_seed_mismatch"))


def ask(engine: EngineServer) -> None:
    """Ask one engine for every document."""
    with Workload(engine.url) as workload:
        for number in range(DOCUMENTS):
            workload.complete("document", workload.words(f"document {number}", DOCUMENT_TOKENS), max_tokens=2)


def await_stored(cache: LMCacheServer, pool: Path, files: int) -> None:
    """Wait until everything that a server has to write is in the pool."""

    def stored() -> bool:
        page = Page(cache.metrics())
        done = page.total("lmcache_mp_l2_store_completed_objects_chunks_total")
        return done >= DOCUMENTS * CHUNKS and len(list(pool.glob("*.data"))) >= files

    assert eventually(stored, SECONDS, pause_seconds=0.1), cache.log_end()


def _servers_by_block(named: Iterable[Beginning]) -> dict[int, set[str]]:
    servers: dict[int, set[str]] = defaultdict(set)
    for one in named:
        servers[one.block_hash].add(one.server)
    return servers


@pytest.fixture(scope="module", params=SEEDS)
def case(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(vllm_lmcache, lmcache, tmp_path_factory, case) -> Run:
    """Documents computed by the first replica, then wanted from the second."""
    folder = tmp_path_factory.mktemp("replicas")
    arguments, seeds = SEEDS[case]
    started = replicas_on_one_pool(
        vllm_lmcache, lmcache, folder, l1_chunks=L1_CHUNKS, seeds=seeds, arguments=arguments
    )
    with pytest.MonkeyPatch.context() as patch, started as replicas:
        engines = [replica.engine for replica in replicas]
        said: list[str] = []
        patch.setattr("exporters.process.log.warning", lambda text, *args: said.append(text % args))
        with exporter_of(*replicas, pool="shared") as exporter:
            ask(engines[0])
            await_stored(replicas[0].cache, folder / "pool", DOCUMENTS * CHUNKS)
            ask(engines[1])
            strangers = 0 if case == "one hash" else 2
            if strangers:
                await_stored(replicas[1].cache, folder / "pool", DOCUMENTS * CHUNKS + 1)

            def told() -> bool:
                page = Scrape(exporter.addresses.metrics_url)
                requests = sum(page.sums(metrics.REQUESTS, "status").values())
                stored = page.sums(metrics.STORED_BLOCKS, "tier")
                least = DOCUMENTS * CHUNKS * max(1, strangers)
                return requests == 2 * DOCUMENTS and min(stored.get("l1", 0), stored.get("l2", 0)) >= least

            await_true(told, "every request of both replicas and every stored block was told")

            def judged() -> bool:
                page = Scrape(exporter.addresses.metrics_url)
                return len(page.sums(metrics.FINDING, "source", kind="hash_seed_mismatch")) >= strangers

            await_true(judged, f"{strangers} servers are said to hash differently")
            shown = Scrape(exporter.addresses.metrics_url)
            batches = first_feed_batches(exporter, int(shown.sums(metrics.FEED_BATCHES)[()]))
            with Store.open(folder / "store.duckdb", clock=time.time) as store:
                store.append(batches)
                stored = store.reader().totals("ns", "chat", ALL_TIME).tokens
                evidence = store.reader().evidence("ns", "chat", ALL_TIME)
            advice = recommend(
                evidence, Deployment("ns", "chat", MODEL_NAME, 2), now_unix_seconds=time.time()
            )
            rows = [row for each in batches for row in each.entries if isinstance(row, RequestRecord)]
            pages = [Page(engine.metrics()) for engine in engines]
        found = {finding.kind: finding for finding in advice.findings}
        return Run(pages, shown, rows, stored.l2, "\n".join(said), found)


def test_what_one_replica_stored_the_other_loads_to_the_token(run, case):
    """UD-41: L2 hits across replicas in page, store and rows are the engine's own; with two hashes none."""
    expected = DOCUMENTS * CHUNKS * CHUNK_TOKENS if case == "one hash" else 0
    shown = run.shown.sums(metrics.REQUEST_TOKENS, "replica", tier="l2")

    assert run.external(1) == expected
    assert shown == {"pod-0": 0, "pod-1": expected}
    assert run.stored_l2_tokens == expected
    assert sum(row.tokens.l2 for row in run.rows if row.engine.replica == "pod-1") == expected
    assert run.external(0) == 0


def test_servers_that_hash_differently_are_named_as_a_pair(run, case):
    """UD-41: both wrote, neither found the other's; with one hash there is nothing to find."""
    named = {kind: one for kind, one in run.advised.items() if kind.endswith("hash_seed_mismatch")}
    if case == "one hash":
        assert run.findings() == set()
        assert named == {}
        return

    assert run.findings() == {"lmcache_records:node-0", "lmcache_records:node-1"}
    assert "node-0 and node-1 (" in run.said
    assert "node-1 and node-0 (" in run.said
    assert run.beginnings_named_on_both() == DOCUMENTS
    assert named.keys() == {FindingKind.HASH_SEED_MISMATCH}
    assert named[FindingKind.HASH_SEED_MISMATCH].evidence == (
        f"node-0 (pod-0) and node-1 (pod-1): of {DOCUMENTS} first chunks of the same prompts 0 have one "
        f"name, {DOCUMENTS} have two."
    )
    assert run.shown.sums(metrics.STORED_BLOCKS, "tier")["l1"] == 2 * DOCUMENTS * CHUNKS
    assert run.shown.sums(metrics.STORED_BLOCKS, "holder", tier="l2")["shared"] > DOCUMENTS * CHUNKS
