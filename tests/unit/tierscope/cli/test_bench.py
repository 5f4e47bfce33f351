"""`tierscope bench` from the command line, on small inputs: what it prints, never how fast."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from exporters.exposition import parse_exposition
from tierscope.cli.bench import benches
from tierscope.cli.benches import analytics, exporters
from tierscope.cli.main import app


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Inputs of a size for tests."""
    monkeypatch.setattr(exporters, "HISTOGRAMS", 2)
    monkeypatch.setattr(exporters, "BATCHES", 5)
    monkeypatch.setattr(analytics, "SESSIONS", 5)
    monkeypatch.setattr(analytics, "TURNS", 3)


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_every_bench_is_a_row_with_its_unit_and_peer():
    """One JSON document; a ratio where there is a peer, null where there is none."""
    rows = json.loads(run("--json").stdout)["rows"]

    assert len(rows) == len(benches())
    for row in rows:
        assert set(row) == {"what", "value", "unit", "peer", "ratio"}
        assert row["value"] > 0
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
    result = run("--only", "chain_kernel")

    assert result.exit_code == 0
    assert "exact hit ratio" in result.output


def test_both_parsers_do_the_same_work():
    """The peer reads the bench's page to the same samples as we do."""
    page = exporters._page()

    peers = [sample for family in text_string_to_metric_families(page) for sample in family.samples]

    assert parse_exposition(page, where="bench").values == [sample.value for sample in peers]
