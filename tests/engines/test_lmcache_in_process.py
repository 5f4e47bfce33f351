"""LMCache as it is inside an engine, with the storage hook: its records against what it held."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engines.environment import Environment
from tests.engines.hook import Record, addresses, read_all
from tests.engines.line_process import LineProcess
from tests.engines.lmcache_server import ENVIRONMENT
from tierscope_probe.storage import STORAGE_RECORDS

PROGRAM = Path(__file__).parent / "lmcache_in_process.py"
CHUNK_TOKENS = 64
CHUNK_BYTES = 131_072
L1_CHUNKS = 32
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


def engine(environment: Environment, folder: Path, **probe: object) -> LineProcess:
    """The LMCache of one worker; it needs what vLLM's environment has."""
    command = (environment.python, PROGRAM, json.dumps(settings(folder, **probe)))
    return LineProcess(command, folder / "inside.log", ENVIRONMENT)


def document(number: int, chunks: int = 4) -> list[int]:
    """Tokens of a document, and ten more that fill no chunk; longer ones begin like shorter ones."""
    rng = random.Random(f"document {number}")
    return [rng.randrange(1000, 30000) for _ in range(16 * CHUNK_TOKENS)][: chunks * CHUNK_TOKENS + 10]


@dataclass
class Run:
    """What one workload told: each request's answer, the records, how many files there are."""

    told: dict[str, dict]
    records: list[Record]
    files: int

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["t"] == kind]


@pytest.fixture(scope="module")
def run(vllm_lmcache, tmp_path_factory) -> Iterator[Run]:
    """Cold, hot and old prompts, one that grows, and one whose file is gone."""
    folder = tmp_path_factory.mktemp("inside")
    told: dict[str, dict] = {}
    with engine(vllm_lmcache, folder) as inside:

        def ask(step: str, number: int, chunks: int = 4) -> None:
            rid = f"{len(told):03d}-{step}"
            told[rid] = inside.answer_to({"rid": rid, "tokens": document(number, chunks)})

        for number in range(12):
            ask("cold", number)
        for number in (11, 10, 11, 10):
            ask("hot", number)
        for number in (0, 1, 2):
            ask("old", number)
        ask("grow", 11, chunks=6)
        ask("mixed", 0, chunks=6)
        for file in sorted((folder / "pool").iterdir())[:8]:
            file.unlink()
        for number in range(3, 9):
            ask("holed", number)
        records = read_all(addresses(folder / "storage-probe.json"))
        yield Run(told, records, len(list((folder / "pool").iterdir())))


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
