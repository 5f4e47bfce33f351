"""A lake's rows lie in files of their day and model, whenever they were written, and go with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.lakes import Lake
from tests.ledgers import START, Ledger, admission, batch
from tests.store_fixture import BATCHES, told, unpacked
from tierscope.domain.window import MOST_UNIX_SECONDS, TimeSpan
from tierscope.storage.database import Database
from tierscope.storage.lake.days import fill_days
from tierscope.storage.lake.place import LakePlace
from tierscope.storage.retention import Keeping
from tierscope.storage.schema import SCHEMA_VERSION, TABLES, VERSION
from tierscope.storage.store import Store
from tierscope.storage.turns import views_are_ours

ALL_TIME = TimeSpan(0.0, 1e11)
DAY_SECONDS = 86400
BEFORE_PARTITIONS = 8
OUTSIDE = """
SELECT count(*) FROM requests AS child LEFT JOIN requests AS parent ON parent.id = child.parent_id
WHERE child.parent_id IS NOT NULL AND
  (parent.hour, parent.day, parent.namespace, parent.endpoint, parent.replica, parent.rank, parent.model)
  IS DISTINCT FROM
  (child.hour, child.day, child.namespace, child.endpoint, child.replica, child.rank, child.model)
"""
"""Deltas that point outside their partition."""


def opened(lake: Lake, clock=lambda: START) -> Store:
    return Store.open(*lake, clock=clock)


def ask(store: Store, query: str):
    with store._database.reading() as cursor:
        return cursor.execute(query).fetchall()


def partitions(lake: Lake, table: str) -> set[str]:
    """The folders that a table's files in force lie in, as people read them."""
    with closing(Database(LakePlace(*lake), read_only=True)) as database, database.reading() as cursor:
        files = cursor.execute(f"SELECT data_file FROM ducklake_list_files('lake', '{table}')").fetchall()
    root = Path(lake.settings.data_path) / "main" / table
    return {unquote(str(Path(file).relative_to(root).parent)) for (file,) in files}


@pytest.fixture
def lake(postgres, tmp_path):
    """One that keeps no rows in PostgreSQL, so that all of them are in files."""
    return postgres.lake(tmp_path, inline_rows=0)


def test_rows_lie_in_files_of_their_day_and_model(lake):
    """Whatever a model is called; a query of one day or one hour opens that day's files alone."""
    models = ("model", "meta-llama/Llama 3.1=8B%", "../../elsewhere", "моде́ль")
    told = [
        admission(range(4), name=f"{model} {day}", at=START + day * DAY_SECONDS, model=model)
        for day in range(2)
        for model in models
    ]
    with opened(lake) as store:
        store.append([batch(0, *told)])
        found = dict(ask(store, "SELECT model, count(*) FROM requests GROUP BY ALL"))
        plan = ask(store, f"EXPLAIN ANALYZE SELECT count(*) FROM requests WHERE hour = {START // 3600:.0f}")

    assert found == dict.fromkeys(models, 2)
    assert partitions(lake, "requests") == {
        f"day={day}/model={model}" for day in ("2023-11-14", "2023-11-15") for model in models
    }
    assert f"Total Files Read: {len(models)}" in plan[0][1]


def test_a_delta_lies_in_the_partition_of_its_parent(lake):
    """Over midnight, and where one engine serves two models that name blocks alike."""
    rows = [
        admission(range(n % 7 + 1), name=f"{n}", at=START + n * 600, model=f"model-{n % 2}")
        for n in range(40)
    ]
    with opened(lake) as store:
        for n in range(0, 40, 8):
            store.append([batch(n // 8, *rows[n : n + 8])])
        outside = ask(store, OUTSIDE)
        deltas = ask(store, "SELECT count(parent_id), count(DISTINCT day) FROM requests")
        chains = store.reader().window("prod", "chat", ALL_TIME)

    assert outside == [(0,)]
    assert deltas[0][0] > 10
    assert deltas[0][1] == 2
    assert chains.accesses == sum(len(row.block_hashes) for row in rows)


def test_files_of_a_day_go_with_it(lake):
    """Retention deletes whole files: nothing is written anew for what stays."""
    today = START + DAY_SECONDS
    with opened(lake, clock=lambda: today) as store:
        for day in range(2):
            rows = (admission(range(3), name=f"{day} {n}", at=START + day * DAY_SECONDS) for n in range(4))
            store.append([batch(day, *rows)])
        before = ask(store, "SELECT data_file FROM ducklake_list_files('lake', 'requests') ORDER BY ALL")
        store.retain(Keeping(raw_seconds=20 * 3600, hourly_seconds=1e9))
        after = ask(
            store,
            "SELECT data_file, delete_file FROM ducklake_list_files('lake', 'requests')",
        )

    assert partitions(lake, "requests") == {"day=2023-11-15/model=model"}
    assert set(after) < {(file, None) for (file,) in before}


def test_a_time_far_off_has_a_day_too(lake):
    """The widest times that are stored lie in partitions like any other."""
    times = (-MOST_UNIX_SECONDS + 1, MOST_UNIX_SECONDS)
    with opened(lake) as store:
        stored = store.append([batch(0, *(admission("a", name=f"{at}", at=at) for at in times))])
        days = ask(store, "SELECT day - DATE '1970-01-01' FROM requests ORDER BY hour")

    assert stored.refused == 0
    assert days == [(at // DAY_SECONDS,) for at in times]


def make_older(lake: Lake, file: Path) -> None:
    """Make the lake as a release before the partitions did, with the rows of a file of that release."""
    with closing(Database(LakePlace(*lake))) as database, database.transaction() as cursor:
        cursor.execute(f"ATTACH '{file}' AS old (READ_ONLY)")
        for table in TABLES:
            columns = tuple(column for column in table.columns if column.since <= BEFORE_PARTITIONS)
            cursor.execute(replace(table, columns=columns).ddl())
            if table != SCHEMA_VERSION:
                cursor.execute(f"INSERT INTO {table.name} BY NAME FROM old.{table.name}")
        cursor.execute(f"INSERT INTO {SCHEMA_VERSION.name} VALUES ({BEFORE_PARTITIONS}, 0)")
        views_are_ours(cursor)


def everything(store: Store):
    """What a move into partitions must not change."""
    reader = store.reader()
    return reader.totals("prod", "chat", ALL_TIME), reader.row_counts(), reader.coverage(ALL_TIME)


@pytest.mark.parametrize("inline_rows", [pytest.param(0, marks=pytest.mark.long), 1000])
def test_a_lake_of_before_is_brought_up(postgres, tmp_path, inline_rows):
    """It goes on at once; upkeep moves what was there into partitions, and no answer changes."""
    lake = postgres.lake(tmp_path, inline_rows=inline_rows)
    make_older(lake, unpacked(BEFORE_PARTITIONS, tmp_path / "older.duckdb"))
    with opened(lake) as store:
        again = store.append(Ledger().batches(2 * BATCHES))
        without, before = ask(store, "SELECT count(*) FROM requests WHERE day IS NULL"), everything(store)
        store.maintained(keep_snapshots_seconds=0)
        after, outside = everything(store), ask(store, OUTSIDE)
        days = ask(store, "SELECT DISTINCT day - DATE '1970-01-01', hour // 24 FROM requests")
        versions = ask(store, "SELECT max(version) FROM schema_version")

    assert again.repeated_batches == len(told())
    assert without[0][0] > 0
    assert versions == [(VERSION,)]
    assert all(day == number for day, number in days)
    assert outside == [(0,)]
    assert after == before
    assert partitions(lake, "requests") == {"day=2023-11-14/model=model"}
    assert partitions(lake, "block_events") == {"day=2023-11-14"}


@contextmanager
def hidden(lake: Lake, day: str) -> Iterator[None]:
    """The files of a day's requests cannot be opened."""
    folder = Path(lake.settings.data_path) / "main" / "requests" / f"day={day}"
    away = folder.with_name(f"away-{day}")
    folder.rename(away)
    try:
        yield
    finally:
        away.rename(folder)


def test_upkeep_opens_no_file_whose_rows_have_their_day(lake):
    """Nor those of other days, where a collector of an earlier release writes beside later ones."""
    with opened(lake) as store:
        for day in range(2):
            store.append([batch(day, admission(range(3), name=f"{day}", at=START + day * DAY_SECONDS))])
        with hidden(lake, "2023-11-14"), hidden(lake, "2023-11-15"):
            unchanged = fill_days(store._database)
        with store._database.transaction() as cursor:
            cursor.execute(
                "INSERT INTO requests BY NAME SELECT * REPLACE (NULL AS day, id + 1 AS id) FROM requests "
                "WHERE day = DATE '2023-11-15'"
            )
        with hidden(lake, "2023-11-14"):
            filled = fill_days(store._database)
        days = ask(store, "SELECT day - DATE '1970-01-01', hour // 24, count(*) FROM requests GROUP BY ALL")

    assert (unchanged, filled) == (0, 1)
    assert sorted(days) == [(19675, 19675, 1), (19676, 19676, 2)]
