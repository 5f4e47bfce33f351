"""The probe inside a real LMCache server: its records against the server's own counters and its clients."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engines import virtualenv
from tests.engines.hook import Record, addresses
from tests.engines.lmcache_environment import PINS, LMCacheEnvironment
from tests.engines.lmcache_records import read_settled
from tests.engines.lmcache_server import CHUNK_BYTES, CHUNK_TOKENS, LMCacheClient, LMCacheServer
from tests.engines.page import Page
from tests.engines.server import eventually
from tierscope_probe.lmcache_module import STATUS_KEY
from tierscope_probe.lmcache_records import RECORDS

L1_CHUNKS = 32
SECONDS = 30
SALT = "tenant-seven"


def document(number: int, chunks: int = 4) -> list[int]:
    """Tokens of a document, and ten more that fill no chunk; longer ones begin like shorter ones."""
    rng = random.Random(f"document {number}")
    return [rng.randrange(1000, 30000) for _ in range(16 * CHUNK_TOKENS)][: chunks * CHUNK_TOKENS + 10]


@dataclass
class Workload:
    """Prompts for one server, what their client was told of each, and what was done to the server."""

    server: LMCacheServer
    client: LMCacheClient
    told: dict[str, dict] = field(default_factory=dict)
    deleted_keys: int = 0
    cleared_chunks: int = 0

    def everything(self) -> None:
        """Cold, hot and old prompts, one that grows, a hole in L2, a burst, a deletion, a clearing."""
        for number in range(12):
            self.ask("cold", number)
            self.settle()
        for number in (11, 10, 11, 10):
            self.ask("hot", number)
        for number in (0, 1, 2):
            self.ask("old", number)
            self.settle()
        self.ask("grow", 11, chunks=6)
        self.ask("again", 10, admissions=2)
        self.ask("salted", 10, salt=SALT)
        self.settle()
        self.unlink_one()
        self.ask("holed", 3)
        for number in range(20, 36):
            self.ask("burst", number)
        self.settle()
        self.ask("kept", 36)
        self.settle()
        self.delete_some()
        self.settle()
        self.cleared_chunks = self.resident()
        self.server.clear()
        self.settle()

    def ask(self, step: str, number: int, chunks: int = 4, **how: object) -> None:
        """Take a document through the server."""
        rid = f"{len(self.told):03d}-{step}"
        self.told[rid] = self.client.ask(rid, document(number, chunks), **how)

    def settle(self) -> None:
        """Wait until L1 is below its watermark, and nothing moves."""

        def settled() -> bool:
            page = Page(self.server.metrics())
            moving = sum(page.total(f"lmcache_mp_num_inflight_l2_{what}") for what in ("stores", "loads"))
            return moving == 0 and self.resident() < 0.8 * L1_CHUNKS

        assert eventually(settled, SECONDS, pause_seconds=0.1), self.server.log_end()

    def resident(self) -> int:
        """Chunks in L1."""
        return Page(self.server.metrics()).total("lmcache_mp_l1_memory_usage_bytes") // CHUNK_BYTES

    def unlink_one(self) -> None:
        """Remove a chunk of document 3 from the pool, as the pool's own eviction would."""
        files = sorted(self.server.pool.glob("*.data"), key=lambda path: path.stat().st_mtime_ns)
        files[3 * 4 + 2].unlink()

    def delete_some(self) -> None:
        """Delete the newest document's objects from L1, by the names of their files."""
        files = sorted(self.server.pool.glob("*.data"), key=lambda path: path.stat().st_mtime_ns)
        self.deleted_keys = self.server.delete([_key_of(path) for path in files[-2:]])["deleted"]


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


def _key_of(path: Path) -> dict:
    """The name of an object in LMCache's API, from the name of its file."""
    model, rank, group, chunk_hash = path.stem.split("@")
    return {
        "chunk_hash_hex": chunk_hash,
        "model_name": model,
        "kv_rank": int(rank, 16),
        "object_group_id": int(group),
    }
