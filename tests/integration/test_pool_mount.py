"""A running exporter over a pool's real directory: evictions that nobody reports, on page and feed."""

from __future__ import annotations

import pytest

from exporters.process import Exporter
from tests.exporting import Scrape, await_true, first_batches
from tests.page_server import PageServer
from tests.pools import engine_name, native_path, scanning, server_name, write
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.mount_settings import MountSettings
from tierscope.domain.settings import CurvineSettings, ExporterSettings, LmcacheSettings
from tierscope.registry import metrics


@pytest.fixture
def pages(opened, captures):
    """A Curvine master and an LMCache server of the pool, as recorded or derived."""
    curvine, lmcache = captures / "curvine", captures / "lmcache" / "mp_pull"
    return opened.enter_context(
        PageServer(
            {
                "/api/overview": (curvine / "api-overview.derived.json").read_bytes(),
                "/api/workers": (curvine / "api-workers-main.derived.json").read_bytes(),
                "/metrics": (curvine / "master-main.derived.prom").read_bytes(),
                "/l1/metrics": (lmcache / "metrics.txt").read_bytes(),
                "/l1/status": (lmcache / "status.json").read_bytes(),
            }
        )
    )


@pytest.fixture
def exporting(opened, tmp_path):
    """Start an exporter that scans the test's own directory."""

    def start(**settings):
        mount = MountSettings(
            pool="pool", path=str(tmp_path / "kv"), must_be_mounted=False, scan_seconds=0.05
        )
        return opened.enter_context(
            Exporter(ExporterSettings(name="test", poll_seconds=0.05, mounts=(mount,), **settings))
        )

    return start


def scrape(exporter):
    return Scrape(exporter.addresses.metrics_url)


def files(exporter):
    return scrape(exporter).sums(metrics.POOL_FILES, "kind")


def evicted(exporter):
    return scrape(exporter).sums(metrics.EVICTED_BLOCKS, "tier", "holder", "reason")


def test_unlinked_files_are_evictions_of_l2(exporting, tmp_path):
    """Of all caches' files, by the pool, within a scan; page and feed agree chunk by chunk."""
    chunks = range(1, 31)
    paths = [write(tmp_path / "kv", server_name(i)) for i in chunks[:10]]
    paths += [write(tmp_path / "kv", f"team/{engine_name(i)}") for i in chunks[10:20]]
    paths += [write(tmp_path / "kv", native_path(i)) for i in chunks[20:]]
    exporter = exporting()
    await_true(lambda: files(exporter) == {"chunk": 30}, "the first scan ended")
    assert evicted(exporter) == {}

    for path in paths[5:25]:
        path.unlink()
    write(tmp_path / "kv", server_name(99))

    everything = {("l2", "pool", "pool_removed"): 20}
    await_true(lambda: evicted(exporter) == everything, "the evictions were told")
    await_true(lambda: scrape(exporter).sums(metrics.STORED_BLOCKS, "tier", "holder"), "the store was told")
    page = scrape(exporter)
    assert page.sums(metrics.POOL_FILES, "kind") == {"chunk": 11}
    assert page.sums(metrics.STORED_BLOCKS, "tier", "holder") == {("l2", "pool"): 1}
    assert evicted(exporter) == everything
    removed = page.sums(metrics.POOL_REMOVED_BLOCKS, "model")
    assert removed == {"org/m": 15, "org_m": 5}
    batches = int(sum(page.sums(metrics.FEED_BATCHES).values()))
    told = [e for e in first_batches(exporter, batches) if isinstance(e, BlockEvent)]
    assert sorted(
        block_hash
        for event in told
        if event.action is BlockAction.EVICTED
        for block_hash in event.block_hashes
    ) == list(range(6, 26))
    assert {event.reason for event in told} == {EvictionReason.POOL_REMOVED, None}


def test_one_size_of_the_pool_is_shown_whoever_can_be_read(exporting, tmp_path, pages):
    """The master's while it answers; the mount's after it went away, and never both."""
    write(tmp_path / "kv", server_name(1))
    exporter = exporting(
        curvine=(CurvineSettings(name="pool", master_urls=(pages.url,), read_workers=False),)
    )
    master_bytes = 214_748_364_800

    def capacity():
        return scrape(exporter).sums(metrics.CAPACITY_BYTES, "tier", "holder")

    await_true(lambda: files(exporter), "the first scan ended")
    await_true(lambda: capacity() == {("l2", "pool"): master_bytes}, "the master was read")

    pages.pages.clear()

    await_true(
        lambda: capacity().get(("l2", "pool"), master_bytes) != master_bytes, "the mount told the size"
    )
    assert list(capacity()) == [("l2", "pool")]


def test_a_chunk_is_stored_once_though_cache_and_scan_both_saw_it(exporting, tmp_path, pages):
    """The server's own counter of the scanned pool is left out."""
    write(tmp_path / "kv", server_name(1))
    counter = b"lmcache_mp_l2_store_completed_objects_chunks_total 64.0"
    assert counter in pages.pages["/l1/metrics"]
    exporter = exporting(lmcache=(LmcacheSettings(name="one", url=f"{pages.url}/l1", pool="pool"),))

    def up():
        return scrape(exporter).sums(metrics.SOURCE_UP, "source")

    await_true(lambda: files(exporter) and up().get("lmcache_metrics:one") == 1, "both were read")
    write(tmp_path / "kv", server_name(2))
    pages.pages["/l1/metrics"] = pages.pages["/l1/metrics"].replace(counter, counter.replace(b"64", b"65"))

    await_true(lambda: scrape(exporter).sums(metrics.STORED_BLOCKS, "tier"), "a store was told")
    await_true(lambda: scrape(exporter).sums(metrics.STORED_BLOCKS, "tier").get("l2"), "it was told of L2")
    asked = len(pages.asked)
    await_true(lambda: len(pages.asked) > asked + 4, "the server was read again")
    assert scrape(exporter).sums(metrics.STORED_BLOCKS, "tier")["l2"] == 1


def test_a_directory_that_is_not_there_costs_its_own_numbers_alone(exporting, pages):
    """The source is down, everything else is up."""
    exporter = exporting(
        curvine=(CurvineSettings(name="pool", master_urls=(pages.url,), read_workers=False),)
    )

    def up():
        return scrape(exporter).sums(metrics.SOURCE_UP, "source")

    await_true(lambda: up().get("curvine_master:pool") == 1, "the master was read")
    assert up()["pool_mount:pool"] == 0
    assert files(exporter) == {}


def test_a_process_killed_in_the_midst_of_a_scan_loses_no_eviction(tmp_path, repository):
    """What went while it scanned, and while it was dead, the next process tells: each chunk once."""
    paths = [write(tmp_path / "kv", server_name(i)) for i in range(3000)]
    settings = {
        "pool": "pool",
        "path": str(tmp_path / "kv"),
        "must_be_mounted": False,
        "state_file": str(tmp_path / "state"),
        "scan_seconds": 0.01,
    }

    with scanning(repository, **settings) as reports:
        assert next(reports)["files"] == 3000
        await_true((tmp_path / "state").exists, "the first scan was kept")
    # Three hundred names a second: the scan of 3,000 is killed long before its end.
    with scanning(repository, **settings, names_per_second=300.0):
        for path in paths[:100]:
            path.unlink()
    for path in paths[100:200]:
        path.unlink()
    with scanning(repository, **settings) as reports:
        report = next(reports)
        later = [next(reports), next(reports)]

    assert (report["stored"], report["removed"], report["files"]) == (0, 200, 2800)
    assert {(each["stored"], each["removed"]) for each in later} == {(0, 0)}
