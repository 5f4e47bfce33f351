"""The probe inside a real LMCache server: its records against the server's own counters and its clients."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.engines import virtualenv
from tests.engines.hook import Record, addresses
from tests.engines.lmcache_environment import PINS, LMCacheEnvironment
from tests.engines.lmcache_records import read_settled
from tests.engines.lmcache_server import CHUNK_BYTES, CHUNK_TOKENS, LMCacheServer
from tests.engines.lmcache_workload import L1_CHUNKS, SALT, Workload, document
from tests.engines.page import Page
from tierscope_probe.lmcache_module import STATUS_KEY
from tierscope_probe.lmcache_records import RECORDS


@dataclass
class Run:
    """A workload's records, the server's page and status after it, and what its client knows."""

    workload: Workload
    records: list[Record]
    page: Page
    status: dict
    files: int

    def of(self, kind: str, **which: object) -> list[Record]:
        """Return the records of a kind that have these values."""
        return [
            record
            for record in self.records
            if record["t"] == kind and all(record[name] == value for name, value in which.items())
        ]

    def sum(self, kind: str, name: str, **which: object) -> int:
        """Sum a field."""
        return sum(record[name] for record in self.of(kind, **which))

    def chunks(self, kind: str, **which: object) -> int:
        """Count chunks."""
        return sum(len(record["chunks"]) for record in self.of(kind, **which))


def run_workload(server: LMCacheServer, ranks: int, work) -> Run:
    """Run some work and read everything that came of it."""
    with server.client(ranks=ranks) as client:
        workload = Workload(server, client)
        work(workload)
    records = read_settled(server, addresses(server.addresses))
    files = len(list(server.pool.glob("*.data")))
    return Run(workload, records, Page(server.metrics()), server.status(), files)


@pytest.fixture(scope="module")
def run(lmcache: LMCacheEnvironment, tmp_path_factory) -> Run:
    """One worker and everything that can happen to a chunk."""
    folder = tmp_path_factory.mktemp("lmcache")
    with LMCacheServer(lmcache, folder, l1_chunks=L1_CHUNKS) as server:
        return run_workload(server, 1, Workload.everything)


def test_the_workload_had_what_makes_counting_hard(run):
    """Hits in both tiers, evictions of every kind, refused stores, a hole in L2."""
    reasons = Counter(record["reason"] for record in run.of("l1_evicted"))
    steps = {record["rid"].split("-")[1] for record in run.of("store_refused")}

    assert set(reasons) == {"after_read", "capacity", "delete", "clear"}
    assert run.sum("lookup", "l1_hit_tokens") > 0
    assert run.sum("lookup", "l2_hit_tokens") > 0
    assert "burst" in steps
    assert run.workload.told[_rid(run, "holed")]["hit_tokens"] == 2 * CHUNK_TOKENS


@pytest.mark.parametrize(
    ("metric", "labels", "kind", "name", "which"),
    [
        ("lookup_requested_tokens", {}, "lookup", "requested_tokens", {}),
        ("lookup_hit_tokens", {}, "lookup", "hit_tokens", {}),
        ("lookup_hit_l1_tokens", {}, "lookup", "l1_hit_tokens", {}),
        ("lookup_hit_l2_tokens", {}, "lookup", "l2_hit_tokens", {}),
        ("lookup_hit_l1_keys", {}, "lookup", "l1_hit_keys", {}),
        ("lookup_hit_l2_keys", {}, "lookup", "l2_hit_keys", {}),
        ("l1_write_chunks", {}, "l1_stored", "keys", {}),
        ("l1_evicted_chunks", {}, "l1_evicted", "keys", {}),
        ("l1_allocation_failure_chunks", {"during": "l1_store"}, "l1_alloc_failed", "keys", {}),
        (
            "l1_allocation_failure_chunks",
            {"during": "l1_store"},
            "store_refused",
            "keys",
            {"reason": "l1_full"},
        ),
        ("l2_store_submitted_objects_chunks", {}, "store", "keys", {}),
        ("l2_store_completed_objects_chunks", {}, "store", "stored_keys", {}),
        ("l2_prefetch_load_submitted_objects_chunks", {}, "load", "keys", {}),
        ("l2_prefetch_load_completed_chunks", {}, "load", "loaded_keys", {}),
        ("l2_prefetch_failure_chunks", {"reason": "l1_oom"}, "l2_failed", "keys", {"reason": "l1_oom"}),
        ("l2_prefetch_failure_chunks", {"reason": "not_found"}, "l2_failed", "keys", {"reason": "not_found"}),
        ("num_chunks_loaded", {}, "transfer", "keys", {"direction": "retrieve"}),
    ],
)
def test_sums_over_records_are_the_servers_own_counters(run, metric, labels, kind, name, which):
    """Exactly, whatever happened."""
    assert run.sum(kind, name, **which) == run.page.total(f"lmcache_mp_{metric}_total", **labels)


@pytest.mark.parametrize(
    ("metric", "labels", "kind"),
    [
        ("lookups_requests", {}, "lookup"),
        ("l2_store_completed_requests", {"l2_name": "fs"}, "store"),
        ("l2_load_completed_requests", {"l2_name": "fs"}, "load"),
    ],
)
def test_there_are_as_many_records_as_the_server_counted(run, metric, labels, kind):
    """One a lookup, one a task."""
    assert len(run.of(kind)) == run.page.total(f"lmcache_mp_{metric}_total", **labels)


def test_bytes_that_came_and_went_are_the_bytes_that_are_there(run):
    """In L1 nothing is left after the clearing; in L2 as much as the server believes."""
    left = run.sum("l1_stored", "bytes") - run.sum("l1_evicted", "bytes")

    assert left == run.page.total("lmcache_mp_l1_memory_usage_bytes") == 0
    assert run.sum("l2_stored", "bytes") == run.page.total("lmcache_mp_l2_usage_bytes")
    assert run.chunks("l2_stored") == run.files + 1, "one was unlinked"


def test_departures_are_told_apart(run):
    """What was loaded left after its read; what was deleted or cleared says so; the rest made room."""
    assert run.chunks("l1_evicted", reason="after_read") == run.chunks("l1_stored", source="load")
    assert run.sum("l1_evicted", "keys", reason="delete") == run.workload.deleted_keys > 0
    assert run.chunks("l1_evicted", reason="clear") == run.workload.cleared_chunks > 0
    triggered = run.page.total("lmcache_mp_l1_eviction_loop_triggered_total")
    assert 0 < len({record["ts"] for record in run.of("l1_evicted", reason="capacity")}) <= triggered


def test_each_lookup_found_what_its_client_was_told(run):
    """By request, the last lookup of each; a request that looked up twice has two."""
    found = {record["rid"]: record for record in run.of("lookup")}

    assert {rid: record["hit_tokens"] for rid, record in found.items()} == {
        rid: told["hit_tokens"] for rid, told in run.workload.told.items()
    }
    assert [record["k"] for record in run.of("lookup", rid=_rid(run, "again"))] == [0, 1]


def test_refused_stores_are_what_clients_were_told_and_l1_has_not(run):
    """The client of a refused store hears that it went well; the record names its request."""
    asked = sum(told["stored_tokens"] for told in run.workload.told.values()) // CHUNK_TOKENS
    refused = run.chunks("store_refused")

    assert asked - refused == run.chunks("l1_stored", source="store")
    assert all(run.workload.told[record["rid"]]["stored_tokens"] > 0 for record in run.of("store_refused"))


def test_loads_belong_to_requests_and_take_time(run):
    """Each within its lookup, from L2's adapter, with as many keys as the lookup found there."""
    for load in run.of("load"):
        (lookup,) = [
            each
            for each in run.of("lookup", rid=load["rid"])
            if each["start"] <= load["start"] <= load["end"] <= each["end"]
        ]
        assert load["loaded_keys"] == lookup["l2_hit_keys"]
        assert (load["l2_name"], load["bytes"]) == ("fs", load["keys"] * CHUNK_BYTES)


def test_nothing_was_lost_and_nothing_went_wrong(run):
    """No drop of ours or the bus's, no error; the status says it too; no salt leaves."""
    stats = run.of("stats")[-1]

    assert [stats[name] for name in ("dropped", "errors", "bus_dropped", "bus_exceptions")] == [0, 0, 0, 0]
    assert run.page.total("lmcache_mp_event_bus_dropped_events_total") == 0
    assert 0 < stats["events"] <= run.status[STATUS_KEY]["events"], "the eviction loop goes on ticking"
    assert run.of("hello")[0]["missing"] == []
    assert all(tuple(record) == ("t", *RECORDS[record["t"]]) for record in run.records)
    assert SALT not in repr(run.records)
    assert len(run.of("lookup", salt=None)) == len(run.of("lookup")) - 1


def test_ranks_of_one_engine_are_one_chunk(lmcache, tmp_path):
    """Two tensor-parallel ranks have two keys a chunk; a chunk comes and goes once."""

    def work(workload: Workload) -> None:
        for number in (0, 1, 0):
            workload.ask("shared", number)
        workload.settle()
        workload.server.clear()
        workload.settle()

    with LMCacheServer(lmcache, tmp_path, l1_chunks=2 * L1_CHUNKS, chunk_bytes=CHUNK_BYTES) as server:
        run = run_workload(server, 2, work)

    assert run.sum("l1_stored", "keys") == run.page.total("lmcache_mp_l1_write_chunks_total") == 16
    assert run.chunks("l1_stored") == 8
    assert run.chunks("l1_evicted", reason="clear") == 8
    assert run.sum("lookup", "hit_tokens") == 4 * CHUNK_TOKENS
    assert run.sum("lookup", "l1_hit_keys") == 8


def test_a_server_serves_without_us_when_switched_off(lmcache, tmp_path):
    """The module is named, says nothing, and binds nothing."""
    with LMCacheServer(lmcache, tmp_path, enabled=False) as server, server.client() as client:
        answer = client.ask("only", document(0))

        assert answer["stored_tokens"] == 4 * CHUNK_TOKENS
        assert STATUS_KEY not in server.status()
        assert not server.addresses.exists()


def test_the_probe_touches_no_pin(lmcache):
    """What is installed is what the pins say, and the probe."""
    pins = {line for line in PINS.read_text("utf-8").splitlines() if line and not line.startswith("#")}
    ours = {name for name in virtualenv.distributions(lmcache.folder) if name.startswith("tierscope-probe")}

    assert len(ours) == 1
    assert pins <= virtualenv.distributions(lmcache.folder)


def _rid(run: Run, step: str) -> str:
    (rid,) = [rid for rid in run.workload.told if rid.endswith(f"-{step}")]
    return rid
