"""`tierscope measure` on two real replicas with one L2 directory: its hits are the store's to the token."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import duckdb
import pytest
from typer.testing import CliRunner

from tests.engines.lmcache_server import CHUNK_TOKENS
from tests.engines.page import Page
from tests.engines.replica import CHUNK_BYTES, exporter_of, replicas_on_one_pool
from tests.exporting import Scrape, first_batches
from tests.ledgers import batch
from tierscope.cli.main import app
from tierscope.registry import metrics
from tierscope.storage.store import Store

L1_CHUNKS = 600
"""All prompts and the filler fit, so that L1 still has them after L0 was filled."""
LENGTHS = (200, 400, 700)
REPEATS = 10


@dataclass(frozen=True)
class Run:
    """The command's document, its exporter's store, and the reading engine's own counters."""

    document: dict
    store: str
    reader: Page

    def ask(self, sql: str) -> tuple:
        """The one row of a query."""
        with duckdb.connect(self.store, read_only=True) as connection:
            return connection.execute(sql).fetchone()


@pytest.fixture(scope="module")
def run(vllm_lmcache, lmcache, tmp_path_factory) -> Run:
    """The command, run on the pair with an exporter of both as its witness."""
    folder = tmp_path_factory.mktemp("measure")
    with (
        replicas_on_one_pool(vllm_lmcache, lmcache, folder, l1_chunks=L1_CHUNKS) as replicas,
        exporter_of(*replicas, pool="pool") as exporter,
    ):
        arguments = [part for replica in replicas for part in ("--url", replica.engine.url)]
        arguments += ["--exporter", exporter.addresses.metrics_url, "--token-range", "5:2048"]
        arguments += ["--lengths", ",".join(map(str, LENGTHS)), "--repeats", str(REPEATS)]
        arguments += ["--chunk-tokens", str(CHUNK_TOKENS), "--html", str(folder / "plot.html"), "--json"]
        result = CliRunner().invoke(app, ["measure", *arguments])
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        (folder / "document.json").write_text(result.stdout, "utf-8")
        shown = Scrape(exporter.addresses.metrics_url)
        with Store.open(folder / "store.duckdb", clock=time.time) as store:
            entries = first_batches(exporter, int(shown.sums(metrics.FEED_BATCHES)[()]))
            store.append(batch(0, *entries))
        return Run(document, str(folder / "store.duckdb"), Page(replicas[1].engine.metrics()))


def test_every_stage_came_from_where_it_was_meant_to(run):
    """Cold, L0, L1 and L2: ten timings of each length, none from elsewhere."""
    document = run.document

    assert document["not_as_meant"] == []
    assert document["left_out"] == {}
    assert {row[stage]["timings"] for row in document["lengths"] for stage in ("cold", "l0", "l1", "l2")} == {
        REPEATS
    }


def test_its_hits_are_the_stores_rows_to_the_token(run):
    """Of the reading replica: what was not computed."""
    (hits,) = run.ask(
        "SELECT CAST(sum(l0_tokens + l1_tokens + l2_tokens + external_tokens) AS BIGINT) "
        "FROM requests WHERE replica = 'pod-1' AND status = 'served'"
    )

    assert hits == run.document["cross_replica"]["hit_tokens"] > 0


def test_its_hits_are_what_engine_and_client_were_told(run):
    """The reader's counter of loads, and the API's `cached_tokens` of every prompt of both."""
    loaded = run.reader.total("vllm:prompt_tokens_by_source_total", source="external_kv_transfer")

    assert run.document["cross_replica"]["hit_tokens"] == loaded
    assert run.document["tokens_differ"] == 0


def test_every_whole_chunk_was_a_hit_across_replicas(run):
    """What one replica wrote the other one found, chunk by chunk; what is left are the prompts' tails."""
    hits = run.document["cross_replica"]

    assert hits["chunk_hit_ratio"] == 1.0
    assert hits["hit_tokens"] == REPEATS * sum(length // CHUNK_TOKENS * CHUNK_TOKENS for length in LENGTHS)


def test_loads_from_l2_have_bytes_and_seconds(run):
    """As many bytes as the chunks that were hits have: each came from the pool, once."""
    load = run.document["l2_load"]

    assert run.document["cross_replica"]["tier_known"]
    (tokens,) = run.ask(
        "SELECT CAST(sum(l2_tokens) AS BIGINT) FROM requests WHERE replica = 'pod-1' AND status = 'served'"
    )
    assert tokens == load["tokens"] == run.document["cross_replica"]["hit_tokens"]
    assert load["bytes"] == run.document["cross_replica"]["hit_chunks"] * CHUNK_BYTES
    assert load["seconds"] > 0
