"""A real LMCache server without the probe, which takes our exporter for its coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporters.lmcache.coordinator_listener import CoordinatorListener
from exporters.process import Exporter
from tests.engines.lmcache_environment import LMCacheEnvironment
from tests.engines.lmcache_server import CHUNK_BYTES, LMCacheServer
from tests.engines.lmcache_workload import Workload, key_of
from tests.engines.page import Page
from tests.exporting import Scrape, await_true, first_feed_batches
from tests.ports import free_port
from tierscope.domain.events import BlockAction, BlockEvent
from tierscope.domain.settings import ExporterSettings, LmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.domain.units import BLOCK_HASH_MASK
from tierscope.registry import metrics
from tierscope.registry.transfer_metrics import STORE_SECONDS

SOURCE = "lmcache_coordinator:node"
WRITTEN, EVICTED = "lmcache_mp_l1_write_chunks_total", "lmcache_mp_l1_evicted_chunks_total"
DOCUMENT_CHUNKS = 4


@dataclass
class Stage:
    """The server's page when nothing moved, and what one exporter had made of it by then."""

    page: Page
    shown: Scrape

    @property
    def evicted(self) -> dict[str, float]:
        """Departures from L1 by reason, as the exporter has them."""
        return self.shown.sums(metrics.EVICTED_BLOCKS, "reason", tier="l1")


@dataclass
class Run:
    """One server's life: heard from its start, by a second exporter that came late, and at its end."""

    whole: Stage
    events: list[BlockEvent]
    written: Counter[int]
    """Hashes of the files in the pool, and once more the one that was taken away and written again."""
    before_late: Page
    late: Stage
    after_end: Scrape
    resident_at_end: int


def exporter_of(server: LMCacheServer, port: int) -> Exporter:
    """An exporter, not yet started, at whose port the server finds its coordinator."""
    node = LmcacheSettings(name="node", url=server.url, pool="pool", coordinator_port=port)
    return Exporter(ExporterSettings(name="test", poll_seconds=0.5, lmcache=(node,)))


def stage(server: LMCacheServer, exporter: Exporter, before: Page | None = None) -> Stage:
    """Wait until the exporter was told what left L1 since `before`; without it, of every file in the pool."""
    page = Page(server.metrics())
    gone = page.total(EVICTED) - (0 if before is None else before.total(EVICTED))
    files = len(list(server.pool.glob("*.data"))) if before is None else 0

    def caught_up() -> bool:
        shown = Scrape(exporter.addresses.metrics_url)
        stored = shown.sums(metrics.STORED_BLOCKS, "tier").get("l2", 0)
        return sum(Stage(page, shown).evicted.values()) >= gone and stored >= files

    await_true(caught_up, f"{gone} departures from L1 and {files} files were told")
    return Stage(page, Scrape(exporter.addresses.metrics_url))


@contextmanager
def heard_requests() -> Iterator[list[str]]:
    """The methods of all requests that any coordinator of ours answers."""
    heard: list[str] = []
    answer = CoordinatorListener.answer

    def hear(self: CoordinatorListener, method: str, path: str, body: bytes) -> dict[str, object]:
        heard.append(method)
        return answer(self, method, path, body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoordinatorListener, "answer", hear)
        yield heard


@pytest.fixture(scope="module")
def run(lmcache: LMCacheEnvironment, tmp_path_factory) -> Run:
    """Everything that can happen to a chunk, then an exporter that begins in the middle."""
    folder = tmp_path_factory.mktemp("coordinator")
    port = free_port()
    told = ("--coordinator-url", f"http://127.0.0.1:{port}", "--coordinator-event-reporting")
    beats = ("--coordinator-heartbeat-interval", "1")
    with (
        heard_requests() as heard,
        LMCacheServer(lmcache, folder, probe=False, arguments=(*told, *beats)) as server,
    ):
        with exporter_of(server, port) as exporter, server.client() as client:
            workload = Workload(server, client)
            workload.everything()
            workload.ask("left", 40)
            workload.settle()
            whole = stage(server, exporter)
            batches = first_feed_batches(exporter, int(whole.shown.sums(metrics.FEED_BATCHES)[()]))
            written = Counter(map(_hash, (*server.pool.glob("*.data"), *workload.unlinked)))
            workload.ask("unheard", 41)
            workload.settle()
        with exporter_of(server, port) as exporter, server.client() as client:
            before = Page(server.metrics())
            server.clear()
            late = stage(server, exporter, before)
            Workload(server, client).ask("last", 42)
            resident = Page(server.metrics()).total("lmcache_mp_l1_memory_usage_bytes") // CHUNK_BYTES
            heard.clear()
            await_true(
                lambda: "PUT" in heard, "the server knows its new coordinator, whom it will tell its end"
            )
            server.stop()

            def is_empty() -> bool:
                shown = Scrape(exporter.addresses.metrics_url)
                gone = shown.sums(metrics.EVICTED_BLOCKS, "reason", tier="l1").get("restart")
                return gone == resident and not shown.sums(metrics.USED_BYTES, "tier", tier="l1")

            await_true(
                is_empty,
                f"the server's end emptied its L1, also of what it told last; of its requests came {heard}",
            )
            after_end = Scrape(exporter.addresses.metrics_url)
    events = [entry for batch in batches for entry in batch.entries if isinstance(entry, BlockEvent)]
    return Run(whole, events, written, before, late, after_end, resident)


def _hash(path: Path) -> int:
    return int(key_of(path)["chunk_hash_hex"], 16) & BLOCK_HASH_MASK


def test_what_came_into_l1_and_left_it_is_what_the_server_counted(run):
    """Stored, loaded, evicted, dropped after a read, deleted and cleared: to the chunk, a salted one too."""
    page, shown = run.whole.page, run.whole.shown

    assert shown.sums(metrics.STORED_BLOCKS, "tier", tier="l1") == {"l1": page.total(WRITTEN)}
    assert run.whole.evicted == {"unknown": page.total(EVICTED)}
    assert page.total(EVICTED) > 0


def test_what_l1_holds_is_what_the_server_holds(run):
    """Bytes as on its page; in chunks what came less what left."""
    page, shown = run.whole.page, run.whole.shown
    resident = page.total(WRITTEN) - page.total(EVICTED)

    assert shown.sums(metrics.USED_BYTES, "tier", tier="l1") == {"l1": resident * CHUNK_BYTES}
    assert shown.sums(metrics.RESIDENT_BLOCKS, "tier", tier="l1") == {"l1": resident}
    assert resident == DOCUMENT_CHUNKS


def test_what_came_into_the_pool_is_what_is_on_its_disk(run):
    """By name: a chunk whose file was taken away was written again, and so told twice."""
    stored = [event for event in run.events if (event.tier, event.action) == (Tier.L2, BlockAction.STORED)]
    told = Counter(chunk for event in stored for chunk in event.block_hashes)

    assert told == run.written
    assert run.whole.shown.sums(metrics.STORED_BLOCKS, "tier", tier="l2") == {"l2": told.total()}
    assert run.whole.shown.sums(metrics.COMPLETENESS, "source")[SOURCE] == 1.0


def test_what_is_missing_without_the_probe_is_said(run):
    """Lookups come from the page, no transfer is timed, and the finding says what would tell the rest."""
    shown, page = run.whole.shown, run.whole.page

    assert shown.sums(metrics.FINDING, "kind", source=SOURCE) == {"lmcache_loads_are_not_split": 1}
    hits = shown.sums(metrics.LOOKUP_TOKENS, "tier", result="hit")
    assert hits == {tier: page.total(f"lmcache_mp_lookup_hit_{tier}_tokens_total") for tier in ("l1", "l2")}
    assert shown.sums(STORE_SECONDS, "tier") == {}


def test_an_exporter_that_comes_late_says_what_it_missed_and_sees_the_rest_leave(run):
    """What was there leaves as the server counts it, though nobody told the exporter that it had come."""
    gone = run.late.page.total(EVICTED) - run.before_late.total(EVICTED)

    assert run.late.evicted == {"unknown": gone}
    assert gone >= 2 * DOCUMENT_CHUNKS
    assert run.late.shown.sums(metrics.COMPLETENESS, "source")[SOURCE] < 1.0


def test_a_server_that_ends_takes_its_l1_with_it(run):
    """It leaves its coordinator in order, and what it still sends after that fills nothing."""
    evicted = run.after_end.sums(metrics.EVICTED_BLOCKS, "reason", tier="l1")

    assert evicted["restart"] == run.resident_at_end == DOCUMENT_CHUNKS
