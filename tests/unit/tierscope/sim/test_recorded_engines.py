"""Recorded runs of real engines replayed at their own sizes: what their tiers had, request by request."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.captured import lmcache_records
from tests.recorded_engines import (
    admissions_of,
    captured,
    looked,
    points_off,
    split_of,
    stored_run,
    trace_of,
)
from tierscope.domain.deployment import RoutingPolicy
from tierscope.sim.fleet import TierSizes, as_lmcache, workload_of
from tierscope.sim.jobs import StepTimes
from tierscope.sim.lmcache import Rules, empty_shelves, look_up, release, store, tick, touch
from tierscope.sim.serving import Fleet, serve
from tierscope_probe.hashes import low_bytes

BLOCK_TOKENS, CHUNK_TOKENS = 32, 64
L0_BLOCKS = 63
"""64 and the engine's null block."""
ENDLESS = 1_000_000

OBSERVED = ("a_alone", "b_offloading", "c_lmcache_mp")


@pytest.fixture
def observer(fixtures) -> Path:
    return fixtures / "captures" / "observer"


@pytest.mark.parametrize("name", OBSERVED)
def test_l0_has_of_each_prompt_what_vllm_had(observer, name):
    """Evictions, clients that leave, several answers, preemptions: 0 tokens off in any of forty prompts."""
    engine, cache = captured(observer / name)
    admissions = admissions_of(engine, cache)
    trace = trace_of(admissions, BLOCK_TOKENS)
    alone = np.zeros(trace.requests, np.int32)

    workload = workload_of(trace, alone, 1, chunk_tokens=CHUNK_TOKENS, answers=True)
    split = as_lmcache(workload, L0_BLOCKS, Rules(0, 0))

    assert split.l0.tolist() == split_of(admissions).l0.tolist()
    assert split.l0.sum() == 3_488


@pytest.mark.parametrize("in_time", [False, True])
def test_each_tier_has_of_each_prompt_what_vllm_and_lmcache_had(observer, in_time):
    """In front of a server of 80 chunks, with queues and preemptions or without any: 0 tokens off."""
    engine, cache = captured(observer / "c_lmcache_mp")
    admissions = admissions_of(engine, cache)
    trace = trace_of(admissions, BLOCK_TOKENS, looked(cache))
    alone = np.zeros(trace.requests, np.int32)
    fleet = Fleet(
        replicas=1,
        sizes=TierSizes(l0_blocks=L0_BLOCKS, l1_chunks=80, l2_chunks=ENDLESS),
        policy=RoutingPolicy.ROUNDROBIN,
        chunk_tokens=CHUNK_TOKENS,
        keeps_loads=False,
        l1_watermark_ratio=0.5,
        l1_eviction_ratio=0.25,
        times=StepTimes(step_seconds=0.0025, prefill_seconds_per_token=39e-6, most_running=4),
    )

    if in_time:
        replayed = serve(trace, fleet, alone).split
    else:
        workload = workload_of(trace, alone, 1, chunk_tokens=CHUNK_TOKENS, answers=True)
        replayed = as_lmcache(workload, L0_BLOCKS, fleet.rules)

    real = split_of(admissions)
    assert [part.tolist() for part in replayed] == [part.tolist() for part in real]
    assert points_off(replayed, real) == {"l0": 0, "l1": 0, "l2": 0}
    assert real.l2.sum() == 1_472


@pytest.mark.parametrize(("run", "most_points_off"), [("one_by_one", 0.0), ("together", 1.0)])
def test_chains_of_a_store_hit_where_they_hit_in_the_servers(fixtures, run, most_points_off):
    """Tiers that overflow: to the token in each prompt of one client, within a point for three at once."""
    admissions, told = stored_run(fixtures / "captures" / "chains" / f"{run}.json")
    trace = trace_of(admissions, BLOCK_TOKENS, told["looked_unix_seconds"])
    step_seconds = told["step_seconds"] if run == "together" else 1e-5
    fleet = Fleet(
        replicas=1,
        sizes=TierSizes(l0_blocks=told["l0_blocks"], l1_chunks=told["l1_chunks"], l2_chunks=ENDLESS),
        policy=RoutingPolicy.ROUNDROBIN,
        chunk_tokens=CHUNK_TOKENS,
        keeps_loads=False,
        l1_watermark_ratio=told["watermark_ratio"],
        l1_eviction_ratio=told["eviction_ratio"],
        times=StepTimes(step_seconds, 0.0, 0.0, 0.0, most_running=4),
    )

    replayed, real = serve(trace, fleet, np.zeros(trace.requests, np.int32)).split, split_of(admissions)

    assert min(part.sum() for part in real) > 1_000
    assert max(map(abs, points_off(replayed, real).values())) <= most_points_off
    if not most_points_off:
        assert [part.tolist() for part in replayed] == [part.tolist() for part in real]


@pytest.mark.parametrize(
    ("run", "watermark_ratio", "lookups"), [("mp_pull", 0.8, 37), ("mp_vllm_cpu", 0.5, 16)]
)
def test_l1_holds_at_each_lookup_the_very_chunks_that_lmcache_held(fixtures, run, watermark_ratio, lookups):
    """Rounds of eviction, refused stores, loads that are dropped again, a file lost under the cache."""
    folder = fixtures / "captures" / "lmcache" / run
    records = list(lmcache_records(folder / "events.jsonl"))
    rules = Rules(32, ENDLESS, watermark_ratio, eviction_ratio=0.25, keeps_loads=False)
    server = Server(records, rules, lost_at=_lost(folder))

    found = [server.ask(record) for record in records if record["t"] == "lookup"]

    assert len(found) == lookups
    assert [modelled for _, modelled in found] == [real for real, _ in found]
    assert any(len(after) < len(before) for (before, _), (after, _) in pairwise(found))


def _lost(folder: Path) -> dict[str, bytes]:
    """The chunk whose file somebody deleted, by the request before which that happened."""
    truth = json.loads((folder / "truth.json").read_text("utf-8"))
    files = truth.get("removed_l2_files", ())
    asking = (one["request_id"] for one in truth["requests"] if one["step"] == "after_pool_eviction")
    return {
        rid: low_bytes(bytes.fromhex(name.split("@")[3].removesuffix(".data")))
        for rid, name in zip(asking, files, strict=False)
    }


def _start(records: list[dict]) -> float:
    return min(record["start"] for record in records if record["t"] == "lookup")


def _chunks(record: dict) -> list[tuple[str | None, bytes]]:
    """Salt and name of each chunk, as one salt's chunks are not another's."""
    names = record["hashes" if record["t"] == "lookup" else "chunks"]
    return [(record["salt"], low_bytes(name)) for name in names]


MOVES = (("l1_stored", "store"), ("l1_evicted", "capacity"))
"""What stays or goes; loads come and go with their lookups."""


class Server:
    """A modelled L1 that is asked what a real one was asked, and what the real one held by its records."""

    def __init__(self, records: list[dict], rules: Rules, lost_at: dict[str, bytes]) -> None:
        self._rules, self._lost_at = rules, lost_at
        asked = [name for record in records if record["t"] == "lookup" for name in _chunks(record)]
        self._numbers = {name: number for number, name in enumerate(dict.fromkeys(asked))}
        self._shelves = empty_shelves(1, len(self._numbers))
        self._moves = sorted(
            (
                record
                for record in records
                if (record["t"], record.get("source", record.get("reason"))) in MOVES
            ),
            key=lambda record: record["ts"],
        )
        self._began = np.floor(_start(records)) - 1 + looked(records) % 1

    def ask(self, lookup: dict) -> tuple[set[int], set[int]]:
        """What the real one and the modelled one hold before a lookup, which the modelled one then serves."""
        shelves, rules = self._shelves, self._rules
        at = lookup["end"]  # by then the store before it is done
        at_ms = int((at - self._began) * 1000)
        if lookup["rid"] in self._lost_at:
            shelves.written_ms[self._numbers[None, self._lost_at[lookup["rid"]]]] = -1
        tick(shelves, rules, 0, at_ms)
        held = set(np.flatnonzero(shelves.held[0]).tolist())
        chunks = np.array([self._numbers[name] for name in _chunks(lookup)], np.int32)
        found = look_up(shelves, rules, 0, chunks, at_ms)
        release(shelves, rules, 0, chunks, found)
        store(shelves, rules, 0, chunks[found.hit :], at_ms)
        touch(shelves, 0, chunks)
        return self._really_held(at), held

    def _really_held(self, at: float) -> set[int]:
        held: set[int] = set()
        for record in self._moves:
            if record["ts"] >= at:
                break
            chunks = {self._numbers[name] for name in _chunks(record)}
            held = held | chunks if record["t"] == "l1_stored" else held - chunks
        return held
