"""`tierscope recommend` from a trace, a store's file and a running API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.app import create_app
from tests import workloads as w
from tests.served import served
from tests.stored import StoredInMemory
from tierscope.advice.recommend import recommend
from tierscope.cli.main import app
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.errors import BadInput, SourceUnreadable, StoreUnusable, TierscopeError
from tierscope.domain.events import LedgerEntry
from tierscope.domain.requests import RequestRecord, RequestStatus, TokenSplit
from tierscope.storage.store import Store

BLOCK_TOKENS = 512
DEPLOYMENT = """
namespace: ns
endpoint: chat
model: qwen
replicas: 1
bytes_per_token: 1024
tiers:
- {tier: l0, capacity_bytes: 1 MiB}
- {tier: l1, capacity_bytes: 20 MiB}
"""


def run(*arguments: object) -> tuple[str, TierscopeError | None]:
    result = CliRunner().invoke(app, ["recommend", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, TierscopeError | SystemExit):
        raise result.exception
    error = result.exception if isinstance(result.exception, TierscopeError) else None
    return result.output, error


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Twenty documents of four blocks, asked for in turn: 80 blocks of half a MiB."""
    rows = (
        {
            "timestamp": 1000 * i,
            "input_length": 4 * BLOCK_TOKENS + 1,
            "output_length": 1,
            "hash_ids": [5 * (i % 20) + k for k in range(5)],
        }
        for i in range(800)
    )
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def document() -> dict[str, object]:
    """A stored document with a change."""
    deployment = w.deployment(80 * w.CHUNK_BYTES)
    evidence = w.served(w.window(w.cycle(40, 1000)), deployment)
    return recommend(evidence, deployment, now_unix_seconds=w.NOW).to_json()


def test_a_trace_and_a_deployment_give_a_document(trace, deployment):
    """80 blocks of half a MiB are 40 MiB."""
    output, error = run("--trace", trace, "--deployment", deployment, "--json")

    assert error is None
    [change] = json.loads(output)["changes"]
    assert (change["target"], change["to"]) == ("l1", 40 * 1024 * 1024)


def test_people_read_what_to_change_and_how(trace, deployment):
    """From and to in units of people, the interval, the reason and the variable to set."""
    output, _ = run("--trace", trace, "--deployment", deployment)
    text = " ".join(output.split())

    assert "ns/chat: change this" in text
    assert "20.0 MiB │ 40.0 MiB" in text
    assert "would have served" in text
    assert "LMCACHE_MAX_LOCAL_CPU_SIZE=0.0390625" in text
    assert "undo it if" in text


def admission(number: int) -> RequestRecord:
    """One of forty prompts in turn, computed anew each time but for the repeats of its chunk."""
    chain = w.chain_hashes(number % 40, 16)
    prompt = 16 * w.BLOCK_TOKENS + 1
    return RequestRecord(
        engine=w.engines(1)[0],
        model="qwen",
        request_id=str(number),
        attempt=0,
        status=RequestStatus.SERVED,
        tokens=TokenSplit(prompt, computed=prompt),
        block_tokens=w.BLOCK_TOKENS,
        block_hashes=tuple(int(block) for block in chain),
        arrived_unix_seconds=w.START + number,
        admitted_unix_seconds=w.START + number,
        chunk_tokens=w.CHUNK_TOKENS,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "store.duckdb", clock=lambda: w.NOW)
    entries: tuple[LedgerEntry, ...] = (*map(admission, range(600)), w.coverage(600))
    store.append(FeedBatch(FeedPosition("node-1", 1, 0), w.START + 600, entries))
    yield store
    store.close()


def test_stored_advice_is_read_from_the_file(store, document):
    """Without a deployment it is what the collector advised last, byte for byte the same values."""
    store.save_recommendation(
        "ns",
        "chat",
        status="recommend",
        document=json.dumps(document).encode(),
        at_unix_seconds=w.NOW,
    )
    store.close()
    output, error = run("--store", store.path, "--json")

    assert error is None
    assert json.loads(output) == document


def test_with_a_deployment_the_stored_history_is_advised_on_anew(store, deployment):
    """600 stored requests over 160 chunks of 64 KiB: 10 MiB do what 20 MiB do."""
    store.close()
    output, error = run("--store", store.path, "--deployment", deployment, "--json")

    assert error is None
    found = json.loads(output)
    assert found["evidence"]["requests"] == 600
    assert found["status"] == "insufficient_evidence"  # the records show no hit at all where L1 had room
    assert "model_disagrees" in [finding["kind"] for finding in found["findings"]]


def test_a_store_without_advice_says_what_else_to_give(store):
    """The way on is in the message."""
    store.close()
    _, error = run("--store", store.path)

    assert isinstance(error, BadInput)
    assert "--deployment" in error.fix


def test_a_store_that_a_collector_holds_names_the_url(store):
    """Two processes cannot have the file open; the API of the running one can be asked."""
    _, error = run("--store", store.path)

    assert isinstance(error, StoreUnusable)
    assert "open" in error.what or "use" in error.what


def test_an_unknown_endpoint_lists_those_there_are(store):
    """A misspelt name is answered with the right ones."""
    store.close()
    _, error = run("--store", store.path, "--endpoint", "ns/chta")

    assert "there is no endpoint ns/chta; it has ns/chat" in str(error)


@pytest.fixture
def url(document) -> Iterator[str]:
    """A running API that has one endpoint."""
    reader = StoredInMemory(recommendations={("ns", "chat"): json.dumps(document).encode()})
    with served(create_app(reader, lambda: w.NOW)) as address:
        yield address


@pytest.mark.parametrize("endpoint", [(), ("--endpoint", "ns/chat")], ids=["only one", "named"])
def test_a_running_api_is_asked(url, document, endpoint):
    """By name, or without where there is one endpoint only."""
    output, error = run("--url", url, *endpoint, "--json")

    assert error is None
    assert json.loads(output) == document


def test_the_words_of_the_api_are_passed_on(url):
    """What, where and fix are those of the API."""
    _, error = run("--url", url, "--endpoint", "ns/absent")

    assert isinstance(error, SourceUnreadable)
    assert "no recommendation for ns/absent" in error.what
    assert "collector.deployments" in error.fix


def test_an_api_that_does_not_answer_is_named():
    """Nothing listens there: address and advice, no traceback."""
    _, error = run("--url", "http://127.0.0.1:1")

    assert isinstance(error, SourceUnreadable)
    assert error.where == "http://127.0.0.1:1/v1/recommendations"


@pytest.mark.parametrize(
    ("option", "instead", "arguments"),
    [
        ("--deployment", "--store or --trace", ("--url", "http://a", "--deployment", "d.yaml")),
        ("--window", "--store with --deployment", ("--store", "s", "--window", "3")),
        ("--window", "--store with --deployment", ("--url", "http://a", "--window", "24")),
        ("--window", "--store with", ("--trace", "t", "--deployment", "d.yaml", "--window", "3")),
        ("--spread-sessions", "--trace", ("--store", "s", "--spread-sessions", "0")),
        ("--skip-bad", "--trace", ("--url", "http://a", "--skip-bad")),
        ("--seed", "--spread-sessions", ("--store", "s", "--seed", "1")),
        ("--seed", "--spread-sessions", ("--trace", "t", "--deployment", "d.yaml", "--seed", "2")),
        ("--endpoint", "--deployment", ("--trace", "t", "--deployment", "d.yaml", "--endpoint", "ns/chat")),
    ],
)
def test_an_option_that_nothing_comes_of_is_refused(option, instead, arguments):
    """By name, with what to do instead, before anything is read."""
    result = CliRunner(env={"COLUMNS": "500"}).invoke(app, ["recommend", *arguments])

    assert result.exit_code == 2
    assert f"{option} does nothing here" in result.output
    assert instead in result.output


def test_options_of_a_trace_are_taken_with_one(tmp_path, deployment):
    """Those that say how to read it."""
    rows = {
        "session": [i // 4 for i in range(40)],
        "ts_ms": [1000 * (i % 4) for i in range(40)],
        "input_length": [4 * BLOCK_TOKENS] * 40,
        "output_length": [1] * 40,
        "block_ids": [[4 * (i // 4) + k for k in range(4)] for i in range(40)],
    }
    pq.write_table(pa.table(rows), tmp_path / "trace.parquet")
    output, error = run(
        *("--trace", tmp_path / "trace.parquet", "--deployment", deployment, "--json"),
        *("--spread-sessions", 1, "--seed", 2, "--skip-bad"),
    )

    assert error is None
    assert json.loads(output)["evidence"]["requests"] == 40


def test_a_window_is_taken_with_a_store_and_a_deployment(store, deployment):
    """The last 100 of 600 seconds."""
    store.close()
    output, error = run(
        *("--store", store.path, "--deployment", deployment, "--window", 100 / 3600, "--json"),
    )

    assert error is None
    assert json.loads(output)["evidence"]["requests"] < 600


@pytest.mark.parametrize(
    "arguments",
    [(), ("--url", "http://a", "--store", "b"), ("--trace", "t.jsonl")],
    ids=["none", "two", "no deployment"],
)
def test_exactly_one_source_has_to_be_given(arguments):
    """Wrong usage is exit status 2."""
    result = CliRunner().invoke(app, ["recommend", *arguments])

    assert result.exit_code == 2
