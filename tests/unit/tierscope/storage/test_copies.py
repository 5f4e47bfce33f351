"""A store is copied while it is written: as of one moment, whole or not at all."""

from __future__ import annotations

import threading
from contextlib import closing

import duckdb
import pytest

from tests.ledgers import START, Ledger
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.window import TimeSpan
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.schema import TABLES
from tierscope.storage.store import Store
from tierscope.storage.views import VIEWS

ALL_TIME = TimeSpan(0.0, 1e11)


@pytest.fixture
def store(places):
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(Ledger(seed=5).batches(60))
        yield store


@pytest.fixture
def written(store):
    """A store that another thread goes on writing while the test runs."""
    done = threading.Event()

    def write() -> None:
        for one in Ledger(seed=5).batches(400)[60:]:
            if done.is_set():
                break
            store.append(one)

    writer = threading.Thread(target=write)
    writer.start()
    yield store
    done.set()
    writer.join()


def test_a_backup_of_a_store_that_is_written_is_a_store(written, tmp_path):
    """Its rows, positions and views are those of one moment between two appends."""
    target = tmp_path / "backup's.duckdb"

    size = written.backup(str(target))

    assert size == target.stat().st_size
    with closing(DuckDbReader.open(target)) as reader:
        (feed,) = (c for c in reader.coverage(ALL_TIME) if c.source.kind == "feed")
        assert (
            reader.window("prod", "chat", ALL_TIME).totals() == reader.totals("prod", "chat", ALL_TIME).tokens
        )
        with reader._database.reading() as cursor:
            assert cursor.execute("SELECT max(sequence) + 1 FROM feed_positions").fetchone() == (
                feed.received,
            )
            for view in VIEWS:
                cursor.execute(f"FROM {view.name} LIMIT 1").fetchall()
    with Store.open(target, clock=lambda: START) as going_on:
        going_on.append(Ledger(seed=5).batches(500))
        assert going_on.position("node-1").sequence == 499


def test_parquet_has_every_table_and_its_sql_makes_the_views(written, tmp_path):
    """DuckDB alone, in the folder, answers what the store answers."""
    folder = tmp_path / "parquet"

    rows = written.to_parquet(str(folder))

    assert {path.name for path in folder.iterdir()} == {f"{t.name}.parquet" for t in TABLES} | {
        "schema.sql",
        "clickhouse.sql",
    }
    with duckdb.connect() as plain:
        plain.execute(f"SET file_search_path = '{folder}'")
        plain.execute((folder / "schema.sql").read_text())
        counts = {t.name: plain.execute(f"SELECT count(*) FROM {t.name}").fetchone()[0] for t in TABLES}
        assert counts == rows
        heard = "SELECT sum(received) FROM coverage WHERE kind = 'feed'"
        assert (
            plain.execute(heard).fetchone()[0]
            == plain.execute("SELECT max(sequence) + 1 FROM feed_positions").fetchone()[0]
        )
        assert plain.execute("SELECT count(*) FROM block_reuse").fetchone()[0] > 0


@pytest.mark.parametrize("order", ["backup", "to_parquet"])
def test_nothing_is_overwritten(store, tmp_path, order):
    """What is there stays as it is."""
    taken = tmp_path / "taken"
    taken.write_text("mine")

    with pytest.raises(StoreUnusable, match="something already"):
        getattr(store, order)(str(taken))
    assert taken.read_text() == "mine"


@pytest.mark.parametrize("order", ["backup", "to_parquet"])
def test_a_copy_that_cannot_be_made_leaves_nothing(store, tmp_path, order):
    """A folder that is missing is named; the store goes on."""
    with pytest.raises(StoreUnusable, match=r"No such file|cannot be"):
        getattr(store, order)(str(tmp_path / "missing" / "copy"))

    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    store.append(Ledger(seed=5).batches(61))
