"""A lake: what several who write it may rely on, and what it says when it cannot be used."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.exporting import await_true
from tests.lakes import Lake
from tests.ledgers import START, Ledger
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.lake_settings import LAKE_PREFIX, LakeSettings
from tierscope.domain.window import TimeSpan
from tierscope.storage import turns
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.lake import upkeep
from tierscope.storage.lake.credentials import s3_parameters
from tierscope.storage.lake.upkeep import elected
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
BATCHES = 12


@pytest.fixture
def lake(postgres, tmp_path):
    return postgres.lake(tmp_path)


def opened(lake: Lake, clock=lambda: START) -> Store:
    return Store.open(*lake, clock=clock)


def contents(store):
    """What is in it, as sums, and how complete its feeds are."""
    reader = store.reader()
    feeds = [c for c in reader.coverage(ALL_TIME) if c.source.kind == "feed"]
    counts = reader.row_counts()
    tables = ("requests", "block_events", "tier_samples", "tier_activity", "engine_tokens", "feed_positions")
    return reader.totals("prod", "chat", ALL_TIME).tokens, {table: counts[table] for table in tables}, feeds


def orderly(folder: Path, told):
    """What a store has that one collector wrote in one go."""
    with Store.open(folder / "orderly.duckdb", clock=lambda: START) as store:
        store.append(told)
        return contents(store)


def test_who_was_overtaken_inside_its_transaction_stores_nothing_twice(lake, tmp_path, monkeypatch):
    """A collector stops between reading positions and committing; its exporter's next owner goes on."""
    monkeypatch.setattr(turns, "LOCK_WAIT_MILLISECONDS", 1)
    told = Ledger(0).batches(BATCHES)
    meanwhile = []

    def clock():
        while meanwhile:  # once: the transaction is tried again
            meanwhile.pop()()
        return START

    with opened(lake) as taker, opened(lake, clock) as paused:
        meanwhile.append(lambda: taker.append(told[:8]))
        late = paused.append(told[:6])
        again = paused.append(told[6:])
        found = contents(paused)

    assert (late.repeated_batches, again.repeated_batches) == (6, 2)
    assert found == orderly(tmp_path, told)


def snapshots(store):
    with store._database.reading() as cursor:
        return len(cursor.execute("FROM lake.snapshots()").fetchall())


def test_who_slept_for_longer_than_snapshots_are_kept_stores_nothing_twice(lake, tmp_path, monkeypatch):
    """When it wakes, the state of the lake that its transaction began with is there no more."""
    monkeypatch.setattr(turns, "LOCK_WAIT_MILLISECONDS", 1)
    told = Ledger(0).batches(BATCHES)
    meanwhile = []

    def clock():
        while meanwhile:
            meanwhile.pop()()
        return START

    def forgotten():
        upkeep._done(taker._database, upkeep._DELETE[0].format(seconds=1))
        return snapshots(taker) == 1

    def overtake():
        taker.append(told[:8])
        await_true(forgotten, "only the last state of the lake is left")

    with opened(lake) as taker, opened(lake, clock) as paused:
        taker.append(told[:2])
        meanwhile.append(overtake)
        late = paused.append(told[:6])
        paused.append(told)
        found = contents(paused)

    assert late.repeated_batches == 6
    assert found == orderly(tmp_path, told)


def run_upkeep(store, statements):
    for statement in statements:
        upkeep._done(store._database, statement.format(table="feed_positions"))


def test_files_that_are_joined_while_an_append_is_under_way_bring_back_no_row(lake, tmp_path, monkeypatch):
    """An append deletes the old position of a feed from a file that is replaced before it commits."""
    monkeypatch.setattr(turns, "LOCK_WAIT_MILLISECONDS", 1)
    one, other = (Ledger(n, exporter=f"node-{n}").batches(BATCHES) for n in (1, 2))
    meanwhile = []

    def clock():
        while meanwhile:
            meanwhile.pop()()
        return START

    with opened(lake) as maintainer, opened(lake, clock) as writer:
        for told in (one[:4] + other[:4], one[4:6]):  # a file of both positions, and one of the first's next
            writer.append(told)
            run_upkeep(maintainer, [upkeep._FLUSH])
        meanwhile.append(lambda: run_upkeep(maintainer, upkeep._JOIN))
        writer.append(one[6:8])
        writer.append(one + other)
        found = contents(writer)

    assert found == orderly(tmp_path, one + other)


def maintained_files(store, lake) -> int:
    """Maintain once; how many files the requests are in."""
    store.maintained(keep_snapshots_seconds=0)
    return len(list(Path(lake.settings.data_path).rglob("requests/**/*.parquet")))


def test_maintenance_changes_no_answer(lake, tmp_path):
    """Rows that waited in PostgreSQL become files, which one collector at a time joins; earlier states go."""
    told = Ledger(0).batches(BATCHES)
    with opened(lake) as store:
        for start in (0, BATCHES // 2):
            store.append(told[start : start + BATCHES // 2])
            moved = store.maintained(keep_snapshots_seconds=0)
            assert moved
        found = contents(store)
        with opened(lake) as other, elected(other._database):
            assert store.maintained(keep_snapshots_seconds=0) is None  # another one does it
        await_true(
            lambda: maintained_files(store, lake) == 1, "states of a second ago are gone with their files"
        )

    assert found == orderly(tmp_path, told)
    reader = DuckDbReader.open(lake.name)  # whoever reads need not know where the data lies
    assert reader.totals("prod", "chat", ALL_TIME).tokens == found[0]
    reader.close()


def test_what_a_collector_without_a_lease_was_about_to_commit_is_not_committed(lake, tmp_path):
    """It is stopped inside a transaction; who takes over waits for nothing, and it goes on when it wakes."""
    told = Ledger(0).batches(BATCHES)
    with opened(lake) as taker, opened(lake) as stopped:
        stopped.leases(0.001).renew()
        leases = taker.leases(60.0)
        with pytest.raises(StoreUnusable), stopped._turns.turn() as turn:  # noqa: PT012  it fails at its end
            turn.cursor.execute("DELETE FROM feed_positions")
            assert leases.renew() == (leases.member,)
            taker.append(told[:8])

        with contextlib.suppress(StoreUnusable):  # a connection that it does not know to be lost
            stopped.append(told[:8])
        stopped.append(told)
        found = contents(stopped)

    assert found == orderly(tmp_path, told)


def test_where_no_lake_is_a_reader_says_so(lake):
    with pytest.raises(StoreUnusable, match="no lake in that database"):
        DuckDbReader.open(lake.name)


def test_a_lake_is_made_only_where_its_data_has_a_place(lake):
    with pytest.raises(StoreUnusable, match="no lake in that database") as refused:
        Store.open(lake.name, clock=lambda: START)

    assert "lake.data_path" in refused.value.fix


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("dbname=lake host=127.0.0.1 port=1 user=postgres", "does not answer"),
        ("dbname=lake password=hunter2 host=127.0.0.1", "holds a password"),
        ("postgresql://tierscope:hunter2@127.0.0.1/lake", "does not say where"),
    ],
)
def test_a_name_that_cannot_be_used_is_told_without_what_is_secret(name, what):
    """Nothing of a password is in the error."""
    with pytest.raises(StoreUnusable, match=what) as refused:
        Store.open(LAKE_PREFIX + name, clock=lambda: START)

    assert "hunter2" not in str(refused.value) + repr(refused.value.__cause__)


def test_an_extension_that_is_missing_is_named(lake, tmp_path):
    with pytest.raises(StoreUnusable, match="extension ducklake is not here"):
        Store.open(lake.name, LakeSettings(extension_folder=str(tmp_path)), clock=lambda: START)


def test_the_object_stores_credentials_are_those_of_the_environment(tmp_path):
    """Keys of the environment first, then those of the credentials file's profile."""
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = a\n[kv]\naws_access_key_id = b\naws_secret_access_key = c%\n"
    )
    place = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "eu-north-1"}
    there = {"ENDPOINT": "minio:9000", "URL_STYLE": "path", "USE_SSL": "false", "REGION": "eu-north-1"}
    profile = {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "kv"}

    assert s3_parameters(profile | place) == {"KEY_ID": "b", "SECRET": "c%", **there}
    assert s3_parameters({"AWS_ACCESS_KEY_ID": "d", "AWS_SECRET_ACCESS_KEY": "e", **profile}) == {
        "KEY_ID": "d",
        "SECRET": "e",
        "REGION": "us-east-1",
    }
    with pytest.raises(StoreUnusable, match="cannot be read"):
        s3_parameters(profile | {"AWS_PROFILE": "none"})
