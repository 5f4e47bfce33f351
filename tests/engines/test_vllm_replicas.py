"""Two real replicas on one L2: what one computed the other loads, unless their servers hash differently."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engines import hook
from tests.engines.lmcache_server import CHUNK_TOKENS, LMCacheServer
from tests.engines.page import Page
from tests.engines.replica import Replica, exporter_of
from tests.engines.server import EngineServer, eventually, transfer_config
from tests.engines.workload import Workload
from tests.exporting import Scrape, await_true, first_feed_batches
from tierscope.domain.requests import RequestRecord
from tierscope.domain.window import TimeSpan
from tierscope.registry import metrics
from tierscope.storage.store import Store

CHUNK_BYTES = 32_768
DOCUMENTS = 4
DOCUMENT_TOKENS = 270
CHUNKS = DOCUMENT_TOKENS // CHUNK_TOKENS
ANY = "tcp://127.0.0.1:*"
SECONDS = 60.0

SEEDS = {
    "one hash": ((), ("0", "0")),
    "two seeds": (("--hash-algorithm", "builtin"), ("0", "1")),
}
"""Arguments of both servers, and the seed of each one's own hash."""


@dataclass(frozen=True)
class Run:
    """The same documents asked of one replica, then of the other."""

    engines: Sequence[Page]
    shown: Scrape
    rows: Sequence[RequestRecord]
    stored_l2_tokens: int
    said: str
    """The exporter's log."""

    def external(self, replica: int) -> float:
        """Tokens that an engine itself counts as loaded through its connector."""
        return self.engines[replica].total(
            "vllm:prompt_tokens_by_source_total", source="external_kv_transfer"
        )

    def findings(self) -> set[str]:
        """Sources with the finding."""
        return set(self.shown.sums(metrics.FINDING, "source", kind="hash_seed_mismatch"))


@contextmanager
def two_replicas(vllm, lmcache, folder: Path, arguments, seeds) -> Iterator[tuple[list[Replica], list]]:
    """Start everything: both caches on one pool, then both engines together."""
    pool = folder / "pool"
    pool.mkdir()
    with ExitStack() as stack:
        caches, engines, addresses = [], [], []
        for number, seed in enumerate(seeds):
            own = folder / f"replica-{number}"
            own.mkdir()
            cache = LMCacheServer(
                lmcache,
                own,
                l1_chunks=80,
                chunk_bytes=CHUNK_BYTES,
                pool=pool,
                arguments=arguments,
                environ={"PYTHONHASHSEED": seed},
            )
            caches.append(stack.enter_context(cache))
            addresses.append(own / "engine-probe.json")
            probe = {"endpoint": ANY, "replay_endpoint": ANY, "address_file": str(addresses[-1])}
            connector = transfer_config(
                "ObservingLMCacheMPConnector",
                role="kv_both",
                tierscope=probe,
                **{"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": cache.rpc_port},
            )
            engines.append(EngineServer(vllm, own, arguments=connector))
            stack.callback(engines[-1].stop)
            engines[-1].start()
        for engine in engines:
            engine.wait()
        replicas = [
            Replica(f"pod-{n}", f"node-{n}", hook.addresses(addresses[n]), engines[n].url, caches[n])
            for n in range(len(seeds))
        ]
        yield replicas, engines


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


@pytest.fixture(scope="module", params=SEEDS)
def case(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(vllm_lmcache, lmcache, tmp_path_factory, case) -> Run:
    """Documents computed by the first replica, then wanted from the second."""
    folder = tmp_path_factory.mktemp("replicas")
    with (
        pytest.MonkeyPatch.context() as patch,
        two_replicas(vllm_lmcache, lmcache, folder, *SEEDS[case]) as (replicas, engines),
    ):
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
                stored = store.reader().totals("ns", "chat", TimeSpan(0.0, 1e11)).tokens
            rows = [row for each in batches for row in each.entries if isinstance(row, RequestRecord)]
            pages = [Page(engine.metrics()) for engine in engines]
        return Run(pages, shown, rows, stored.l2, "\n".join(said))


def test_what_one_replica_stored_the_other_loads_to_the_token(run, case):
    """UD-41: L2 hits across replicas in page, store and rows are the engine's own; with two seeds none."""
    expected = DOCUMENTS * CHUNKS * CHUNK_TOKENS if case == "one hash" else 0
    shown = run.shown.sums(metrics.REQUEST_TOKENS, "replica", tier="l2")

    assert run.external(1) == expected
    assert shown == {"pod-0": 0, "pod-1": expected}
    assert run.stored_l2_tokens == expected
    assert sum(row.tokens.l2 for row in run.rows if row.engine.replica == "pod-1") == expected
    assert run.external(0) == 0


def test_servers_that_hash_differently_are_named_as_a_pair(run, case):
    """UD-41: both wrote, neither found the other's; with one hash there is nothing to find."""
    if case == "one hash":
        assert run.findings() == set()
        return

    assert run.findings() == {"lmcache_records:node-0", "lmcache_records:node-1"}
    assert "node-0 and node-1 (" in run.said
    assert "node-1 and node-0 (" in run.said
    assert run.shown.sums(metrics.STORED_BLOCKS, "tier")["l1"] == 2 * DOCUMENTS * CHUNKS
    assert run.shown.sums(metrics.STORED_BLOCKS, "holder", tier="l2")["shared"] > DOCUMENTS * CHUNKS
