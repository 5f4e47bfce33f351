"""A store's file goes into a lake whole, once, and counts on there."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.ledgers import START, Ledger
from tierscope.cli.main import app
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.window import TimeSpan
from tierscope.storage.schema import TABLES
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)


@pytest.fixture
def lake(postgres, tmp_path):
    return postgres.lake(tmp_path)


def opened(place):
    return Store.open(*place, clock=lambda: START)


def contents(store):
    """Every table but the versions, as people see it: with names of runs instead of their numbers."""
    found = {}
    with store._database.reading() as cursor:
        for table in TABLES:
            names = [column.name for column in table.columns]
            rows = cursor.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall()
            if "feed" in names and table.name != "feed_positions":
                runs = dict(
                    cursor.execute("SELECT feed, (exporter, incarnation) FROM feed_positions").fetchall()
                )
                at = names.index("feed")
                rows = [(*row[:at], runs[row[at]], *row[at + 1 :]) for row in rows]
            found[table.name] = sorted(
                map(repr, [row[1:] if table.name == "feed_positions" else row for row in rows])
            )
    return {name: rows for name, rows in found.items() if name != "schema_version"}


def written(tmp_path, name="node-1", seed=1):
    """A file that a collector wrote and closed."""
    path = tmp_path / f"{name}-{seed}.duckdb"
    with Store.open(path, clock=lambda: START) as store:
        store.append(Ledger(seed, exporter=name).batches(20))
        store.record_deployment(Deployment("prod", name, "model", 2))
        expected = contents(store)
    return path, expected


def test_a_file_is_in_the_lake_whole_and_its_exporter_counts_on(lake, tmp_path):
    """Asked twice it is there once; what the exporter says next follows what was moved."""
    told = Ledger(1).batches(30)
    path, expected = written(tmp_path)
    arguments = ["store", "move", str(path), "--to", lake.name, "--data-path", lake.settings.data_path]

    first = CliRunner().invoke(app, arguments)
    with opened(lake) as store:
        moved = contents(store)
        counts = store.reader().row_counts()
        again = store.take_in(path)
        store.append(told[18:])
        position = store.position("node-1")
        totals = store.reader().totals("prod", "chat", ALL_TIME).tokens
        chains = store.reader().window("prod", "chat", ALL_TIME).accesses

    assert first.exit_code == 0, first.output
    assert f"requests: {counts['requests']:,} rows" in first.output
    assert moved == expected
    assert not any(again.values())
    with Store.open(tmp_path / "orderly.duckdb", clock=lambda: START) as orderly:
        orderly.append(told)
        assert position == orderly.position("node-1")
        assert totals == orderly.reader().totals("prod", "chat", ALL_TIME).tokens
        assert chains == orderly.reader().window("prod", "chat", ALL_TIME).accesses


@pytest.mark.long
def test_a_file_joins_what_the_lake_has(lake, tmp_path):
    """Runs get numbers of their own, so nothing of two files is mixed up."""
    (one, first), (two, second) = written(tmp_path, "node-1", 1), written(tmp_path, "node-2", 2)

    with opened(lake) as store:
        store.take_in(one)
        store.take_in(two)
        found = contents(store)

    assert found == {name: sorted(first[name] + second[name]) for name in first}


@pytest.mark.long
def test_what_would_count_twice_is_refused_and_nothing_is_changed(lake, tmp_path):
    """A collector took the same run of the exporter into the lake before its file was moved."""
    path, _ = written(tmp_path)
    with opened(lake) as store:
        store.append(Ledger(1).batches(5))
        before = contents(store)
        with pytest.raises(StoreUnusable, match="would count twice"):
            store.take_in(path)

        assert contents(store) == before


def test_only_a_file_is_moved_and_only_into_a_lake(tmp_path):
    path, _ = written(tmp_path)

    for arguments in (
        [str(path), "--to", str(path)],
        ["ducklake:postgres:dbname=a", "--to", "ducklake:postgres:dbname=b"],
    ):
        refused = CliRunner().invoke(app, ["store", "move", *arguments])
        assert refused.exit_code == 2
