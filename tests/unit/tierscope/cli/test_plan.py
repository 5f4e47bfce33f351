"""`tierscope plan` from the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tierscope.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_the_document_has_what_a_size_takes():
    """A small deployment: one store; no cost without prices."""
    found = json.loads(run("--engines", 4, "--qps", 1, "--json").stdout)

    assert found["rates"]["requests_per_second"] == 4
    assert (found["exporters"]["count"], found["stores"]["count"]) == (1, 1)
    assert found["stores"]["kept_bytes"] == 30 * found["stores"]["bytes_per_day"]
    assert found["cost_per_month"] is None


def test_prices_make_a_cost():
    """Cores of every process, and the disk."""
    found = json.loads(
        run("--engines", 800, "--qps", 2, "--core-hour-price", 1, "--gib-month-price", 0, "--json").stdout
    )

    full = found["exporters"]["count"] * found["exporters"]["cores_of_the_fullest"]
    busiest = found["stores"]["count"] * found["stores"]["collector_cores_of_the_busiest"]
    assert found["cost_per_month"] == found["cores"] * 730
    assert full < found["cores"] <= full + busiest
    assert found["stores"]["count"] > 1


def test_a_node_that_is_not_full_costs_what_it_has():
    """Nine engines cost nine times what one does, whatever nodes they are on."""
    nine, one = (
        json.loads(
            run("--engines", n, "--qps", 1, "--core-hour-price", 1, "--gib-month-price", 0, "--json").stdout
        )
        for n in (9, 1)
    )

    assert nine["cost_per_month"] == pytest.approx(9 * one["cost_per_month"])
    assert nine["exporters"]["cores_of_the_fullest"] == pytest.approx(
        8 * one["exporters"]["cores_of_the_fullest"]
    )


def test_the_table_says_how_to_get_a_cost():
    """People read it."""
    told = run("--engines", 4, "--qps", 1).stdout

    assert "stores" in told
    assert "--core-hour-price" in told


def test_an_exporter_with_too_many_engines_is_an_error_with_its_fix():
    """The command refuses what cannot be planned."""
    result = run("--engines", 80, "--qps", 100)

    assert result.exit_code == 1
    assert "fewer engines" in str(result.exception)
