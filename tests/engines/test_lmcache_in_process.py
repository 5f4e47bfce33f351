"""LMCache as it is inside an engine: what its storage hook and controller are told, against what it held."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporters.process import Exporter
from tests.engines.environment import Environment
from tests.engines.hook import Record, addresses, read_all
from tests.engines.line_process import LineProcess
from tests.engines.lmcache_server import CHUNK_BYTES, CHUNK_TOKENS, ENVIRONMENT
from tests.engines.lmcache_workload import L1_CHUNKS, document
from tests.exporting import Scrape, await_true, first_batches
from tests.ports import free_port
from tierscope.domain.events import BlockAction, BlockEvent
from tierscope.domain.settings import ExporterSettings, InProcessLmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.domain.units import BLOCK_HASH_MASK
from tierscope.registry import metrics
from tierscope_probe.storage import STORAGE_RECORDS

PROGRAM = Path(__file__).parent / "lmcache_in_process.py"
L2 = "RemoteBackend-tierscope"


def settings(folder: Path, **probe: object) -> dict:
    """What LMCache is started with: an L1 of so many chunks, and our connector to a directory as L2."""
    return {
        "chunk_size": CHUNK_TOKENS,
        "local_cpu": True,
        "max_local_cpu_size": L1_CHUNKS * CHUNK_BYTES / 2**30,
        "cache_policy": "LRU",
        "min_retrieve_tokens": 0,
        "remote_serde": "naive",
        "remote_storage_plugins": ["tierscope"],
        "extra_config": {
            "remote_storage_plugin.tierscope.module_path": "tierscope_probe.storage_connector",
            "remote_storage_plugin.tierscope.class_name": "ObservingFSConnector",
            "fs_base_path": str(folder / "pool"),
            "tierscope": {
                "endpoint": "tcp://127.0.0.1:*",
                "replay_endpoint": "tcp://127.0.0.1:*",
                "address_file": str(folder / "storage-probe.json"),
                **probe,
            },
        },
    }


def engine(
    environment: Environment, folder: Path, controller: Mapping[str, object] | None = None, **probe: object
) -> LineProcess:
    """The LMCache of one worker, told where its `controller` is; it needs what vLLM's environment has."""
    command = (environment.python, PROGRAM, json.dumps(settings(folder, **probe) | dict(controller or {})))
    return LineProcess(command, folder / "inside.log", ENVIRONMENT)


@dataclass
class Run:
    """What one workload told: each request's answer, the records, how many files there are."""

    told: dict[str, dict]
    records: list[Record]
    files: int
    l1: set[int]
    """Names of the chunks that were in L1 at the end."""
    evicted: int
    """Chunks that LMCache counted as evicted from L1."""
    shown: Scrape
    """The page of the exporter that it took for its controller."""
    changes: list[BlockEvent]
    """What that exporter published."""

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["t"] == kind]


def controlled() -> tuple[InProcessLmcacheSettings, dict[str, object]]:
    """An exporter that listens as a controller, and what tells LMCache of it."""
    pull, reply, own = (f"127.0.0.1:{free_port()}" for _ in range(3))
    listening = InProcessLmcacheSettings(
        name="inside",
        controller_endpoint=f"tcp://{pull}",
        controller_reply_endpoint=f"tcp://{reply}",
        chunk_tokens=CHUNK_TOKENS,
    )
    return listening, {
        "enable_controller": True,
        "controller_pull_url": pull,
        "controller_reply_url": reply,
        "lmcache_worker_ports": [int(own.rpartition(":")[2])],
    }


def answers(inside: LineProcess, pool: Path) -> dict[str, dict]:
    """What it answers to cold, hot and old prompts, one that grows, and some whose files are gone."""
    told: dict[str, dict] = {}

    def ask(step: str, *numbers: int, chunks: int = 4) -> None:
        for number in numbers:
            rid = f"{len(told):03d}-{step}"
            told[rid] = inside.answer_to({"rid": rid, "tokens": document(number, chunks)})

    ask("cold", *range(12))
    ask("hot", 11, 10, 11, 10)
    ask("old", 0, 1, 2)
    ask("grow", 11, chunks=6)
    ask("mixed", 0, chunks=6)
    for file in sorted(pool.iterdir())[:8]:
        file.unlink()
    ask("holed", *range(3, 9))
    return told


def everything_heard(exporter: Exporter, inside: LineProcess) -> tuple[dict, Scrape]:
    """What LMCache has in L1 once its controller was told of it all, and the controller's page then."""
    last: list[tuple[dict, Scrape]] = []

    def heard() -> bool:
        l1, page = inside.answer_to({}), Scrape(exporter.addresses.metrics_url)
        came, left = (
            page.sums(metric, "tier").get("l1", 0)
            for metric in (metrics.STORED_BLOCKS, metrics.EVICTED_BLOCKS)
        )
        last.append((l1, page))
        return (came - left, left) == (len(l1["chunks"]), l1["evicted"])

    await_true(heard, "the controller was told of every chunk that came into L1 and left it")
    return last[-1]


@pytest.fixture(scope="module")
def run(vllm_lmcache, tmp_path_factory) -> Run:
    """One workload from beginning to end."""
    folder = tmp_path_factory.mktemp("inside")
    listening, controller = controlled()
    with (
        Exporter(ExporterSettings(name="test", lmcache_in_process=(listening,))) as exporter,
        engine(vllm_lmcache, folder, controller) as inside,
    ):
        told = answers(inside, folder / "pool")
        records = read_all(addresses(folder / "storage-probe.json"))
        l1, shown = everything_heard(exporter, inside)
        entries = first_batches(exporter, int(shown.sums(metrics.FEED_BATCHES)[()]))
        return Run(
            told,
            records,
            len(list((folder / "pool").iterdir())),
            {chunk & BLOCK_HASH_MASK for chunk in l1["chunks"]},
            l1["evicted"],
            shown,
            [entry for entry in entries if isinstance(entry, BlockEvent)],
        )


def test_every_chunk_that_was_read_belongs_to_the_request_that_held_it(run):
    """By request as many chunks as its lookup held in L2, each once, with its bytes and its time."""
    read = defaultdict(set)
    for record in run.of("read"):
        (rid,) = record["rids"]
        assert record["chunk"] not in read[rid]
        assert (record["tokens"], record["bytes"]) == (CHUNK_TOKENS, CHUNK_BYTES)
        assert 0 < record["start"] <= record["end"]
        read[rid].add(record["chunk"])

    held = {rid: answer["held_chunks"].get(L2, 0) for rid, answer in run.told.items()}
    assert {rid: len(chunks) for rid, chunks in read.items()} == {rid: n for rid, n in held.items() if n}
    assert sum(held.values()) >= 12


def test_l1_served_what_was_not_read_from_l2(run):
    """Retrieved tokens less those of the records are the ones that LMCache held in L1."""
    read_tokens: dict[str, int] = defaultdict(int)
    for record in run.of("read"):
        read_tokens[record["rids"][0]] += record["tokens"]

    for rid, answer in run.told.items():
        in_l1 = answer["held_chunks"].get("LocalCPUBackend", 0) * CHUNK_TOKENS
        assert answer["retrieved_tokens"] - read_tokens[rid] == in_l1, rid
    assert sum(answer["retrieved_tokens"] for answer in run.told.values()) > sum(read_tokens.values()) > 0


def test_every_chunk_that_was_written_is_told(run):
    """As many writes as files came into the pool: those there now, and the eight that were taken away."""
    written = [record["chunk"] for record in run.of("write")]

    assert all(record["bytes"] == CHUNK_BYTES for record in run.of("write"))
    assert run.files <= len(set(written)) <= run.files + 8


def test_what_the_controller_is_told_is_what_l1_holds_and_lost(run):
    """Chunk by chunk those that came less those that left; as many left as LMCache's own counter says."""
    held: set[int] = set()
    for change in run.changes:
        assert change.tier is Tier.L1
        if change.action is BlockAction.STORED:
            held |= set(change.block_hashes)
        else:
            held -= set(change.block_hashes)

    assert held == run.l1
    assert len(run.l1) == L1_CHUNKS
    assert run.shown.sums(metrics.EVICTED_BLOCKS, "reason", tier="l1") == {"unknown": run.evicted}
    assert run.evicted > 0
    source = "lmcache_controller:inside"
    assert run.shown.sums(metrics.COMPLETENESS, "source")[source] == 1.0
    assert run.shown.sums(metrics.SOURCE_UP, "source")[source] == 1


def test_l1_came_to_hold_no_chunk_that_the_pool_never_had(run):
    """Names that the controller is told are the storage hook's."""
    known = {int.from_bytes(record["chunk"], "big") for record in (*run.of("write"), *run.of("read"))}

    assert {chunk for change in run.changes for chunk in change.block_hashes} <= known


def test_records_have_the_fields_that_are_documented(run):
    """Nothing went wrong in the hook, nothing was dropped, and what it looked for was counted."""
    for record in run.records:
        assert tuple(record) == ("t", *STORAGE_RECORDS[str(record["t"])])
    last = run.of("stats")[-1]
    assert (last["errors"], last["dropped"]) == (0, 0)
    assert last["asked"] > last["found"] > 0
    assert run.of("hello")[0]["chunk_size"] == CHUNK_TOKENS


def test_switched_off_it_tells_nothing_and_changes_nothing(vllm_lmcache, run, tmp_path):
    """The same prompts hit the same, and no address is bound."""
    with engine(vllm_lmcache, tmp_path, enabled=False) as inside:
        for number in (0, 1):
            tokens = document(number)
            assert inside.answer_to({"rid": f"cold-{number}", "tokens": tokens})["hit_tokens"] == 0
        again = inside.answer_to({"rid": "again", "tokens": document(0)})

    assert again["hit_tokens"] == again["retrieved_tokens"] == 256
    assert not (tmp_path / "storage-probe.json").exists()
