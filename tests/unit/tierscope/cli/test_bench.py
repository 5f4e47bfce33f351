"""`tierscope bench` from the command line, on small inputs: what it prints, never how fast."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from exporters.exposition import parse_exposition
from tierscope.cli.bench import benches
from tierscope.cli.benches import costs, exporters, generated, simulator, storage
from tierscope.cli.benches.generated import generated_trace
from tierscope.cli.main import app


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Inputs of a size for tests."""
    monkeypatch.setattr(costs, "REQUESTS", 20)
    monkeypatch.setattr(exporters, "HISTOGRAMS", 2)
    monkeypatch.setattr(exporters, "BATCHES", 5)
    monkeypatch.setattr(generated, "SESSIONS", 5)
    monkeypatch.setattr(generated, "TURNS", 3)
    monkeypatch.setattr(simulator, "CONFIGURATIONS", 2)
    monkeypatch.setattr(storage, "MESSAGES", 20)
    monkeypatch.setattr(storage, "EXECUTEMANY_ROWS", 10)
    monkeypatch.setattr(storage, "REPEATS", 1)


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_every_bench_is_a_row_with_its_unit_and_peer():
    """One JSON document; a ratio where there is a peer, null where there is none."""
    rows = json.loads(run("--json").stdout)["rows"]

    assert len(rows) > len(benches(generated_trace()))
    for row in rows:
        assert set(row) == {"what", "value", "unit", "peer", "ratio"}
        # What one more costs is a difference of two measurements, which inputs of this size drown in noise.
        assert row["value"] > 0 or row["unit"] in {"tokens", "µs", "bytes"}
        assert (row["peer"] is None) == (row["ratio"] is None)
    assert rows[0]["peer"] == "prometheus_client.parser"


def test_one_bench_can_be_run_alone():
    """By its name; the others are not measured."""
    assert len(json.loads(run("--only", "event_decoder", "--json").stdout)["rows"]) == 1


def test_a_bench_that_does_not_exist_is_refused_with_those_that_do():
    """Wrong usage, before anything is measured."""
    result = run("--only", "nonsense")

    assert result.exit_code == 2
    assert "page_parser" in result.output


def test_the_table_names_what_was_measured():
    """For people, without `--json`."""
    result = run("--only", "curve")

    assert result.exit_code == 0
    assert "exact hit" in result.output
    assert "accesses/s" in result.output


def test_both_parsers_do_the_same_work():
    """The peer reads the bench's page to the same samples as we do."""
    page = exporters._page()

    peers = [sample for family in text_string_to_metric_families(page) for sample in family.samples]

    assert parse_exposition(page, where="bench").values == [sample.value for sample in peers]


def test_a_trace_of_ones_own_is_measured_next_to_the_peer(fixtures):
    """No hit token differs from the peer's at the sizes that it measures."""
    trace = fixtures / "traces" / "conversations.jsonl"
    rows = json.loads(run("--only", "curve", "--trace", trace, "--json").stdout)["rows"]

    assert rows[0]["peer"].startswith("kvcache-simulator")
    assert rows[1]["value"] == 0
