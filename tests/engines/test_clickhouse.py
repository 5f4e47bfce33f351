"""The export's tables and views in ClickHouse, against the store's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.engines import virtualenv
from tests.ledgers import START, Ledger
from tierscope.storage.clickhouse import VIEWS
from tierscope.storage.retention import Keeping
from tierscope.storage.schema import TABLES
from tierscope.storage.store import Store

PINS = Path(__file__).parent / "chdb-26.9.0.txt"
ANSWERS = Path(__file__).with_name("clickhouse_answers.py")
SPAN = "1699990000", "1700900000"
SPANNED = ("block_accesses", "block_reuse")


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[Store, Path]:
    """A store, some hours of which are sums already, and its export."""
    folder = tmp_path_factory.mktemp("clickhouse")
    with Store.open(folder / "store.duckdb", clock=lambda: START + 7200) as store:
        store.append(Ledger(seed=5).batches(400))
        store.retain(Keeping(raw_seconds=3600, hourly_seconds=1e9))
        store.to_parquet(str(folder / "export"))
        yield store, folder / "export"


@pytest.fixture(scope="module")
def ask(exported):
    """Ask ClickHouse of the export; returns the rows of each query."""
    given = os.environ.get("TIERSCOPE_CHDB_ENVIRONMENT")
    environment = virtualenv.prepared("chdb", PINS, given=given, probe=False)

    def asked(*queries):
        done = subprocess.run(
            [environment / "bin" / "python", ANSWERS, *queries],
            cwd=exported[1],
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return asked


def rows_of(store, query):
    """The store's own answer, with what JSON makes of it."""
    with store._database.reading() as cursor:
        rows = cursor.execute(query).fetchall()
    return sorted(json.loads(json.dumps(rows, default=str)), key=repr)


def test_every_table_arrives_row_by_row(exported, ask):
    """Every column of every table, 64-bit hashes and unknowns included; a list that is not known is empty."""
    store, _ = exported
    names = [table.name for table in TABLES]
    lists = {table.name: [n for n, c in enumerate(table.columns) if "[]" in c.sql_type] for table in TABLES}

    answers = dict(zip(names, ask(*(f"SELECT * FROM {name}" for name in names)), strict=True))

    assert sum(map(len, answers.values())) > 1000
    for name in names:
        expected = rows_of(store, f"FROM {name}")
        for row in expected:
            for column in lists[name]:
                row[column] = row[column] or []
        assert sorted(answers[name], key=repr) == sorted(expected, key=repr), name


def test_views_say_what_the_stores_own_say(exported, ask):
    """Chains put together, uses before, and tiers by minute and hour: equal to the row and the last digit."""
    store, _ = exported
    start, end = SPAN
    spans = {name: f"(span_start = {start}, span_end = {end})" if name in SPANNED else "" for name in VIEWS}
    ours = {name: f"({start}, {end})" if name in SPANNED else "" for name in VIEWS}

    answers = ask(*(f"SELECT * FROM {name}{spans[name]}" for name in VIEWS))

    for name, found in zip(VIEWS, answers, strict=True):
        expected = rows_of(store, f"FROM {name}{ours[name]}")
        assert len(expected) > 5
        assert _rounded(found) == _rounded(expected), name


def _rounded(rows):
    """Rows in one order; ratios and intervals to twelve digits."""
    return sorted(
        ([float(f"{v:.12g}") if isinstance(v, float) else v for v in row] for row in rows), key=repr
    )
