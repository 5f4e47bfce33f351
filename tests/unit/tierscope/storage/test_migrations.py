"""A store of any earlier version goes on under this release, with everything that was in it."""

from __future__ import annotations

from contextlib import closing

import duckdb
import pytest

from tests.ledgers import START, Ledger
from tests.store_fixture import BATCHES, path_of, told, unpacked
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.requests import NO_TOKENS, RequestRecord
from tierscope.domain.window import TimeSpan
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.schema import TABLES, VERSION
from tierscope.storage.store import Store
from tierscope.storage.views import VIEWS

ALL_TIME = TimeSpan(0.0, 1e11)
VERSIONS = range(1, VERSION + 1)


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def older(version, tmp_path):
    """A file that a release with this version of the tables wrote."""
    if not path_of(version).exists():
        pytest.fail(f"version {version} has no fixture; make it: python -m tests.store_fixture")
    return unpacked(version, tmp_path / "store.duckdb")


def open_store(path):
    return Store.open(path, clock=lambda: START)


def columns(path) -> set[tuple[str, str, str]]:
    with duckdb.connect(str(path)) as connection:
        return set(
            connection.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns() "
                "JOIN duckdb_tables() USING (table_name)"
            ).fetchall()
        )


def test_the_fixture_is_of_its_version(older, version):
    """It has the tables and columns that came with its version and earlier, and no others."""
    assert columns(older) == {
        (table.name, column.name, column.sql_type)
        for table in TABLES
        for column in table.columns
        if max(table.since, column.since) <= version
    }


def test_what_was_stored_is_there_and_goes_on(older):
    """Sums, chains and positions are those of before; what comes next is stored beside them."""
    entries = [entry for batch in told() for entry in batch.entries]
    served = sum((e.tokens for e in entries if isinstance(e, RequestRecord) and e.counts), NO_TOKENS)
    with open_store(older) as store:
        reader = store.reader()
        assert reader.totals("prod", "chat", ALL_TIME).tokens == served
        assert reader.window("prod", "chat", ALL_TIME).totals() == served
        assert store.position("node-1").sequence == BATCHES - 1

        again = store.append(Ledger().batches(2 * BATCHES))

        assert again.repeated_batches == BATCHES
        assert reader.row_counts()["tier_samples"] == 2 * BATCHES * 2 // 5


def test_an_upgraded_file_is_as_a_new_one(older, tmp_path):
    """The same tables, columns and types, and every view answers."""
    open_store(older).close()
    open_store(tmp_path / "new.duckdb").close()

    assert columns(older) == columns(tmp_path / "new.duckdb")
    with duckdb.connect(str(older)) as connection:
        for view in VIEWS:
            connection.execute(f"FROM {view.name}").fetchall()
        versions = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    assert versions == (VERSION,)


def test_a_reader_says_how_an_older_file_is_brought_up(older, version):
    """It does not change the file; the error names both versions and the command."""
    if version == VERSION:
        DuckDbReader.open(older).close()
        return
    with pytest.raises(StoreUnusable, match=f"version {version}.*version {VERSION}") as caught:
        DuckDbReader.open(older)
    assert "tierscope store upgrade" in caught.value.fix

    open_store(older).close()
    with closing(DuckDbReader.open(older)) as reader:
        assert reader.row_counts()["requests"] > 0


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """All of it or nothing: the next start tries again."""
    path = unpacked(1, tmp_path / "store.duckdb")
    before = columns(path)
    with monkeypatch.context() as broken:
        broken.setattr("tierscope.storage.migrations.VIEWS", [object()])
        with pytest.raises(AttributeError):
            open_store(path)

    assert columns(path) == before
    open_store(path).close()
    assert columns(path) > before


def test_published_columns_never_vanish_or_change(repository):
    """What the baseline says of a column the tables say too, and each new column is added to it."""
    baseline = (repository / "tests/golden/store.baseline").read_text().splitlines()

    now = {
        f"{table.name}.{column.name} {column.sql_type} {'null' if column.null_means else 'not null'} "
        f"{max(table.since, column.since)}"
        for table in TABLES
        for column in table.columns
    }
    lost = sorted(set(baseline) - now)
    new = sorted(now - set(baseline))
    assert not lost, f"published, and now gone or changed (add a column instead): {lost}"
    assert not new, f"add to tests/golden/store.baseline, sorted: {new}"
    assert baseline == sorted(baseline)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_column_added_later_may_be_null(table):
    """The rows that were there before do not say it."""
    assert [c.name for c in table.columns if c.since > table.since and c.null_means is None] == []
