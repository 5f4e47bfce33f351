"""Bytes, times and opens between two readings, by who counted them."""

from __future__ import annotations

import pytest

from exporters.curvine.traffic import TrafficCounter, client_counts, fuse_counts, worker_counts
from tests.curvine_cluster import page
from tierscope.domain.pool import PoolTraffic, Viewpoint

CHUNK = 14_680_064


@pytest.fixture
def folder(captures):
    return captures / "curvine"


def test_a_worker_counts_bytes_times_calls_and_opens(folder):
    """1,500 chunks read by other nodes, 700 written; nothing was opened past it."""
    assert worker_counts(page(folder, "worker-0")) == {
        "read_bytes": 1500 * CHUNK,
        "written_bytes": 700 * CHUNK,
        "read_us": 5_200_000,
        "write_us": 1_700_000,
        "reads": 168_000,
        "writes": 78_400,
        "remote_opens": 1500,
        "local_opens": 0,
    }


def test_a_client_counts_the_same_bytes_in_both_releases(folder):
    """1,300 chunks read and 700 written; before 0.4 the kernel's requests say how many calls there were."""
    old, new = fuse_counts(page(folder, "fuse-v0.3.2")), fuse_counts(page(folder, "fuse-v0.4"))

    assert old == new
    assert (new["read_bytes"], new["written_bytes"]) == (1300 * CHUNK, 700 * CHUNK)
    assert (new["reads"], new["writes"]) == (145_600, 78_400)


def test_the_master_sums_all_clients(folder):
    """2,600 chunks were read cluster-wide, twice what the one client read."""
    assert client_counts(page(folder, "master-main"))["read_bytes"] == 2600 * CHUNK


def test_what_moved_is_the_growth_between_two_readings(folder):
    """Nothing at the first one; times become seconds; what a process does not count stays unknown."""
    counter = TrafficCounter("pool", Viewpoint.CLIENTS)
    assert list(counter.advance({"read_bytes": 100, "read_us": 5_000_000}, 10.0)) == []

    assert list(counter.advance({"read_bytes": 150, "read_us": 6_500_000}, 25.0)) == [
        PoolTraffic("pool", Viewpoint.CLIENTS, "", 10.0, 25.0, read_bytes=50, read_seconds=1.5)
    ]
    assert list(counter.advance({"read_bytes": 150, "read_us": 6_500_000}, 40.0)) == []


def test_a_process_that_began_anew_counts_from_zero(folder):
    """Told by its start time, also where its counters already passed what they were."""
    counter = TrafficCounter("pool", Viewpoint.WORKER, "w0")
    list(counter.advance({"read_bytes": 100}, 10.0, started=1.0))

    (moved,) = counter.advance({"read_bytes": 120}, 25.0, started=20.0)

    assert moved.read_bytes == 120
