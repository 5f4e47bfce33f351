"""Curvine's pages, built from its source's names: which process, how large a pool, on what."""

from __future__ import annotations

import json

import pytest

from exporters.curvine.parse import Role, Room, is_active, parse_pool, role_of
from exporters.exposition import parse_exposition
from tests.curvine_cluster import page, workers
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier

GIB_100 = 107_374_182_400


@pytest.fixture
def folder(captures):
    return captures / "curvine"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("master-v0.3.2", Role.MASTER),
        ("master-main", Role.MASTER),
        ("worker-0", Role.WORKER),
        ("worker-1", Role.WORKER),
        ("fuse-v0.3.2", Role.FUSE),
        ("fuse-v0.4", Role.FUSE),
    ],
)
def test_a_process_is_known_by_its_names(folder, name, role):
    """Ports moved between releases and `capacity` is everywhere; other names tell."""
    assert role_of(page(folder, name)) is role


def test_anything_else_has_no_role():
    """A page of capacities alone could be anybody's."""
    assert role_of(parse_exposition("capacity 5\navailable 3", where="test")) is Role.UNKNOWN


@pytest.mark.parametrize("release", ["v0.3.2", "main"])
def test_the_pool_is_the_sum_of_its_live_workers(folder, release):
    """Two workers of 100 GiB with 1,200 chunk files."""
    document = (folder / f"api-workers-{release}.derived.json").read_bytes()

    pool = parse_pool(page(folder, f"master-{release}"), document, where="master")

    assert pool.sample("curvine", 15.0) == TierSample(
        tier=Tier.L2,
        holder="curvine",
        at_unix_seconds=15.0,
        capacity_bytes=2 * GIB_100,
        used_bytes=17_616_076_800,
        used_blocks=1_200,
    )
    assert (pool.live_workers, pool.missing_workers) == (2, 0)
    assert pool.room.available_bytes == 197_132_288_000


def test_three_of_four_workers_are_said_to_be_three_of_four(folder):
    """One is lost, and is not in the size."""
    pool = parse_pool(
        page(folder, "master-main"), workers(folder, "Live", "Live", "Live", lost=1), where="master"
    )

    assert pool.room.capacity_bytes == 3 * GIB_100
    assert (pool.live_workers, pool.missing_workers) == (3, 1)
    assert pool.counts == {"live": 3, "lost": 1}


@pytest.mark.parametrize("status", ["Blacklist", "Decommission", "Unknown"])
def test_a_worker_that_takes_nothing_new_is_not_in_the_size(folder, status):
    """The list is called live, but holds every registered worker: the status says what one is."""
    pool = parse_pool(page(folder, "master-main"), workers(folder, "Live", status), where="master")

    assert pool.room.capacity_bytes == GIB_100
    assert pool.counts == {"live": 1, status.lower(): 1}


def test_each_workers_storage_is_told_by_kind(folder):
    """Directories of one kind are one; one that failed is left out, as in the worker's own sum."""
    directory = {"capacity": 10, "fs_used": 4, "available": 6, "storage_type": "Ssd", "failed": False}
    storage = {
        "a": directory,
        "b": {**directory, "fs_used": 1, "available": 9},
        "c": {**directory, "storage_type": "Mem"},
        "d": {**directory, "failed": True},
    }

    pool = parse_pool(
        page(folder, "master-main"), workers(folder, "Live", storage_map=storage), where="master"
    )

    assert pool.workers[0].by_storage == {"ssd": Room(20, 5, 15), "mem": Room(10, 4, 6)}


def test_a_workers_own_page_is_found_by_what_it_registered(folder):
    """Its address and web port, in brackets where the address has colons."""
    document = json.loads(workers(folder, "Live", "Live"))
    document["live_workers"][1]["address"] |= {"ip_addr": "fd00::7", "web_port": 9002}

    pool = parse_pool(page(folder, "master-main"), json.dumps(document).encode(), where="master")

    assert [worker.url for worker in pool.workers] == ["http://10.0.0.0:9001", "http://[fd00::7]:9002"]


def test_the_masters_own_gauges_stand_in_for_its_list(folder):
    """The sum is the same while all workers live; nothing is known of any one of them."""
    pool = parse_pool(page(folder, "master-main"), None, where="master")

    assert pool.room == Room(2 * GIB_100, 17_616_076_800, 197_132_288_000)
    assert pool.counts == {"live": 2}
    assert pool.workers is None


def test_a_workers_page_under_a_masters_address_is_refused(folder):
    """The right port of one release is another process's in the next."""
    with pytest.raises(SourceUnreadable) as caught:
        parse_pool(page(folder, "worker-0"), workers(folder, "Live"), where="http://host:9001")

    assert "worker" in caught.value.what
    assert "9001" in caught.value.where


def test_only_the_active_master_counts(folder):
    """Standby and safe mode are not active."""
    overview = (folder / "api-overview.derived.json").read_bytes()
    standby = json.dumps({**json.loads(overview), "master_state": "Standby"}).encode()

    assert is_active(overview, where="test")
    assert not is_active(standby, where="test")
