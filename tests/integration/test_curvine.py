"""A running exporter over a whole Curvine cluster by its derived pages: master, workers, a FUSE client."""

from __future__ import annotations

import json

import pytest

from exporters.process import Exporter
from tests.curvine_cluster import text
from tests.exporting import Scrape, await_true, first_batches
from tests.page_server import PageServer
from tierscope.domain.pool import PoolTraffic
from tierscope.domain.settings import CurvineSettings, ExporterSettings
from tierscope.registry import metrics, pool_metrics

CHUNK = 14_680_064


@pytest.fixture
def folder(captures):
    return captures / "curvine"


@pytest.fixture
def cluster(opened, folder):
    """Servers of the master, of two workers at the addresses they registered, and of a client."""
    servers = {
        name: opened.enter_context(PageServer()) for name in ("master", "worker-0", "worker-1", "fuse")
    }
    for name, page in (("worker-0", "worker-0"), ("worker-1", "worker-1"), ("fuse", "fuse-v0.4")):
        servers[name].pages["/metrics"] = text(folder, page)
    document = json.loads((folder / "api-workers-main.derived.json").read_bytes())
    for index, worker in enumerate(document["live_workers"]):
        port = int(servers[f"worker-{index}"].url.rpartition(":")[2])
        worker["address"] |= {"hostname": f"worker-{index}", "ip_addr": "127.0.0.1", "web_port": port}
    servers["master"].pages |= {
        "/api/overview": (folder / "api-overview.derived.json").read_bytes(),
        "/api/workers": json.dumps(document).encode(),
        "/api/config": (folder / "api-config.derived.json").read_bytes(),
        "/metrics": text(folder, "master-main"),
    }
    return servers


@pytest.fixture
def exporter(opened, cluster):
    pool = CurvineSettings(name="kv", master_urls=(cluster["master"].url,), fuse_urls=(cluster["fuse"].url,))
    settings = ExporterSettings(name="test", poll_seconds=0.05, timeout_seconds=3.0, curvine=(pool,))
    return opened.enter_context(Exporter(settings))


def scrape(exporter):
    return Scrape(exporter.addresses.metrics_url)


def asked_again(*servers):
    """Wait until each has been asked twice more: the second answer was all of what it says now."""
    before = [server.asked.count("/metrics") for server in servers]
    await_true(
        lambda: all(
            server.asked.count("/metrics") > count + 1 for server, count in zip(servers, before, strict=True)
        ),
        "all were read again",
    )


def test_workers_found_and_client_given_are_read(exporter, cluster, folder):
    """A chunk read through the client from the other node's worker: seen by both, on page and feed."""
    await_true(lambda: len(scrape(exporter).sums(metrics.COMPLETENESS, "source")) == 3, "all were read")
    asked_again(cluster["worker-1"], cluster["fuse"])
    before = b'read_blocks{type="remote"} 1100'
    assert before in cluster["worker-1"].pages["/metrics"]
    cluster["worker-1"].pages["/metrics"] = text(
        folder, "worker-1", read_bytes=1101 * CHUNK, read_count=123_312
    ).replace(before, b'read_blocks{type="remote"} 1101')
    moved = b'bytes_total{io_type="read",path_type="curvine",status="success"} %d'
    cluster["fuse"].pages["/metrics"] = text(folder, "fuse-v0.4").replace(
        moved % (1300 * CHUNK), moved % (1301 * CHUNK)
    )

    def read_bytes():
        return scrape(exporter).sums(pool_metrics.MOVED_BYTES, "seen_by", "direction")

    seen = {("worker", "read"): CHUNK, ("worker", "write"): 0, ("fuse", "read"): CHUNK, ("fuse", "write"): 0}
    await_true(lambda: read_bytes() == seen, "both saw the chunk")
    page = scrape(exporter)
    assert page.sums(pool_metrics.BLOCK_OPENS, "path") == {"local": 0, "remote": 1}
    assert page.sums(metrics.COMPLETENESS, "source") == {
        "curvine_master:kv": 1,
        "curvine_workers:kv": 1,
        f"curvine_fuse:kv/{cluster['fuse'].url.removeprefix('http://')}": 1,
    }
    assert page.sums(pool_metrics.WORKER_CAPACITY, "worker", "storage") == {
        ("worker-0", "ssd"): 107_374_182_400,
        ("worker-1", "ssd"): 107_374_182_400,
    }
    batches = int(sum(page.sums(metrics.FEED_BATCHES).values()))
    told = [entry for entry in first_batches(exporter, batches) if isinstance(entry, PoolTraffic)]
    assert sorted((entry.seen_by.value, entry.read_bytes) for entry in told) == [
        ("fuse", CHUNK),
        ("worker", CHUNK),
    ]


def test_a_worker_that_hangs_is_one_of_two_and_the_rest_goes_on(exporter, cluster):
    """Half of the workers' pages are there; the master still tells the size of both."""
    await_true(lambda: len(scrape(exporter).sums(metrics.COMPLETENESS, "source")) == 3, "all were read")

    cluster["worker-0"].hung.add("/metrics")

    def missing():
        return scrape(exporter).sums(metrics.SOURCE_MESSAGES, "source", result="missing")[
            "curvine_workers:kv"
        ]

    await_true(lambda: missing() >= 2, "its time-outs were counted")
    page = scrape(exporter)
    assert page.sums(metrics.SOURCE_UP, "source")["curvine_workers:kv"] == 1
    assert page.sums(metrics.CAPACITY_BYTES) == {(): 214_748_364_800}
    assert set(page.sums(metrics.UNKNOWN_INPUT, "what")) == {"worker that cannot be read"}


def test_only_paths_that_read_are_asked(exporter, cluster):
    """The master's port takes commands by GET."""
    asked_again(cluster["master"])

    assert set(cluster["master"].asked) == {"/api/overview", "/api/workers", "/api/config", "/metrics"}
