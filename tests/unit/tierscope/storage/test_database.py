"""Many readers, one writer at a time, and an honest end."""

from __future__ import annotations

import subprocess
import sys
import threading

import duckdb
import pytest

from tests.ledgers import START, Ledger, batch
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.window import TimeSpan
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)

FULL_DISK = """
import resource, sys
from tests.ledgers import START, Ledger
from tierscope.domain.errors import StoreUnusable
from tierscope.storage.store import Store

store = Store.open(sys.argv[1], clock=lambda: START)
batches = Ledger().batches(400)
store.checkpoint()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (store.path.stat().st_size + 4096, hard))
stored = 0
try:
    for stored, batch in enumerate(batches):
        store.append(batch)
except StoreUnusable as error:
    print(error.what)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert store.position("node-1").sequence == stored - 1
store.append(batches)
store.close()
print("went on")
"""


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as store:
        yield store


def test_a_reader_in_the_middle_of_a_read_does_not_stop_ingest(store):
    """A long answer being read holds its own snapshot, not the writer."""
    batches = Ledger().batches(40)
    store.append(batches[:20])
    with store._database.reading() as slow:
        slow.execute("FROM requests, range(1000)")
        first = slow.fetchone()

        store.append(batches[20:])
        folded = store.checkpoint()

        assert first is not None
        assert slow.fetchone() is not None
    assert store.position("node-1").sequence == 39
    assert folded or store.checkpoint()


def test_readers_see_whole_appends(store):
    """While a writer appends, every read is of some moment between two appends."""
    batches = Ledger(seed=2).batches(60)
    torn: list[tuple[int, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with store._database.reading() as cursor:
                row = cursor.execute(
                    "SELECT (SELECT coalesce(max(sequence), -1) FROM feed_positions), "
                    "(SELECT coalesce(sum(received), 0) FROM coverage WHERE kind = 'feed')"
                ).fetchone()
            if row[0] + 1 != row[1]:
                torn.append(row)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for one in batches:
        store.append(one)
    done.set()
    for reader in readers:
        reader.join()

    assert torn == []


def test_writers_in_two_threads_take_turns(store):
    """Advice that is saved while batches come in disturbs neither."""
    batches = Ledger(seed=2).batches(30)

    def save() -> None:
        for n in range(30):
            store.save_recommendation(
                "prod", "chat", status="no_change", document=b"{}", at_unix_seconds=START + 3600 * n
            )

    saver = threading.Thread(target=save)
    saver.start()
    for one in batches:
        store.append(one)
    saver.join()

    assert store.reader().row_counts()["recommendations"] == 30
    assert store.position("node-1").sequence == 29


def test_closing_stops_what_still_reads(store):
    """A read that would take forever ends with our error, and the file is free."""
    started = threading.Event()
    ended: list[StoreUnusable] = []

    def read_forever() -> None:
        try:
            with store._database.reading() as cursor:
                started.set()
                cursor.execute("SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b")
        except StoreUnusable as error:
            ended.append(error)

    reader = threading.Thread(target=read_forever)
    reader.start()
    started.wait()
    store.close()
    reader.join()

    assert "closed" in ended[0].what
    duckdb.connect(str(store.path)).close()


def test_after_a_fatal_error_the_file_is_opened_anew(store):
    """DuckDB gives a database up after some errors; the next use goes on from what was committed."""
    store.append(batch(0))
    with pytest.raises(StoreUnusable, match="damaged"), store._database.reading():
        raise duckdb.FatalException("FATAL Error: the database has been invalidated")

    store.append(batch(1))

    assert store.reader().row_counts()["coverage"] == 1
    assert store.position("node-1").sequence == 1


def test_a_full_disk_loses_nothing_and_writing_goes_on_when_there_is_room(tmp_path, repository):
    """The failed append is as if it had not been; the same batches go in later."""
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "store.duckdb")],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.splitlines() == ["the disk is full; what was already stored is safe", "went on"], (
        run.stderr
    )
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as store:
        (feed,) = (c for c in store.reader().coverage(ALL_TIME) if c.source.kind == "feed")
        assert (feed.received, feed.missing) == (400, 0)
