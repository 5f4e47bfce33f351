"""What the probe in a cache server of the testbed says, against what that server itself counts."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fleet_records import Recorder
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.model.l1 import Cache
from tierscope.testbed.model.l2 import Pool
from tierscope.testbed.wire.cache_records import CacheRecordWriter
from tierscope.testbed.workload.mixed import MixedWorkload


@pytest.fixture(scope="module", params=[True, False], ids=["retained", "dropped after the read"])
def server(request):
    """Ten minutes of one replica with a small L1: its records by kind, and its counters."""
    config = TestbedConfig(
        replicas=1,
        duration_seconds=600.0,
        l0_bytes=2**30,
        l1_bytes=2 * 2**30,
        l1_retain_loads=request.param,
    )
    told: list[dict] = []
    writer = CacheRecordWriter(told.append, config, server="lmcache-0", epoch_unix_seconds=1e9)
    workload = MixedWorkload.of(config)
    fleet = Fleet(config, workload, observe=lambda index: Recorder(index, []), watch=lambda _: writer)
    fleet.run_out()
    return told, fleet.engines[0].cache, config


def total(told, kind, field, **which):
    return sum(
        record[field]
        for record in told
        if record["t"] == kind and all(record[name] == value for name, value in which.items())
    )


def test_the_records_sum_to_the_servers_counters(server):
    """Lookups, hits by tier, arrivals, departures, loads and stores."""
    told, cache, config = server
    counters = cache.counters

    assert sum(record["t"] == "lookup" for record in told) == counters.lookups
    assert total(told, "lookup", "requested_tokens") == counters.requested_tokens
    assert total(told, "lookup", "l1_hit_tokens") == counters.hit_l1_tokens > 0
    assert total(told, "lookup", "l2_hit_tokens") == counters.hit_l2_tokens > 0
    assert total(told, "l1_stored", "keys") == counters.written
    assert total(told, "l1_evicted", "keys") == counters.evicted > 0
    assert total(told, "load", "loaded_keys") == counters.loaded
    assert total(told, "store", "keys") == counters.submitted
    assert total(told, "store", "stored_keys") == counters.completed
    assert total(told, "l2_stored", "keys") == counters.put
    assert total(told, "l2_stored", "bytes") == counters.put * config.chunk_bytes


def test_what_came_and_did_not_leave_is_what_is_there(server):
    """Chunk by chunk, at every moment and at the end."""
    told, cache, _ = server
    there = Counter()
    for record in told:
        if record["t"] == "l1_stored":
            there.update(record["chunks"])
        elif record["t"] == "l1_evicted":
            there.subtract(record["chunks"])
            assert min(there[chunk] for chunk in record["chunks"]) >= 0

    assert (+there).total() == cache.used_chunks


def test_departures_say_why(server):
    """Only a server that keeps no loads drops what it loaded for one read."""
    told, _, config = server
    dropped = total(told, "l1_evicted", "keys", reason="after_read")

    assert total(told, "l1_evicted", "keys", reason="capacity") > 0
    assert (dropped > total(told, "load", "keys") / 2) is not config.l1_retain_loads


def test_what_finds_no_room_is_told_twice_as_the_real_server_does():
    """The allocation that failed, and the store or load it failed for."""
    told: list[dict] = []
    config = TestbedConfig()
    pool = Pool(
        capacity_bytes=1e9, chunk_bytes=1, workers=1, block_bytes=1, ttl_seconds=None, ttl_check_seconds=1
    )
    cache = Cache(
        pool,
        capacity_chunks=2,
        chunk_tokens=256,
        watermark_ratio=1.0,
        eviction_ratio=0.5,
        store_batch_chunks=8,
        retain_loads=True,
        watch=CacheRecordWriter(told.append, config, server="s", epoch_unix_seconds=0.0),
    )
    for chunk in (1, 2, 3):
        pool.put(chunk, 0.0)

    cache.store([7, 8, 9], 0.1)
    cache.lookup([1, 2, 3], 0.2)

    assert [(r["t"], r.get("during") or r.get("reason"), r["keys"]) for r in told if "keys" in r] == [
        ("l1_alloc_failed", "l1_store", 3),
        ("store_refused", "l1_full", 3),
        ("l1_alloc_failed", "l2_prefetch", 3),
        ("l2_failed", "l1_oom", 3),
    ]


def test_statistics_come_now_and_then():
    """A reader learns from them until when everything was told."""
    told: list[dict] = []
    writer = CacheRecordWriter(told.append, TestbedConfig(), server="s", epoch_unix_seconds=100.0)

    for second in range(25):
        writer.tick(float(second))

    assert [record["ts"] for record in told] == [100.0, 110.0, 120.0]
