"""A file that cannot be the store is named, with the reason, and left as it was."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.ledgers import START, Ledger, batch
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.window import TimeSpan
from tierscope.storage import recovery
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.failures import StoreDamaged
from tierscope.storage.schema import VERSION
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)

HOLDER = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""

LOCKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def open_store(path):
    return Store.open(path, clock=lambda: START)


def refusal(path, opening=open_store) -> StoreUnusable:
    """The error of opening `path`, having checked that the file is as it was."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreUnusable) as caught:
        opening(path)

    assert str(path) in caught.value.where
    assert (path.read_bytes() if path.is_file() else None) == before
    return caught.value


@pytest.fixture
def stored(tmp_path):
    """The file of a store with an hour in it, closed."""
    path = tmp_path / "store.duckdb"
    with open_store(path) as store:
        store.append(Ledger().batches(60))
    return path


def change(path, sql):
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)


@pytest.mark.parametrize("opening", [open_store, DuckDbReader.open])
def test_a_newer_store_names_both_versions(stored, opening):
    """An older release does not touch what it does not know."""
    change(stored, f"INSERT INTO schema_version VALUES ({VERSION + 1}, {START})")

    error = refusal(stored, opening)

    assert f"version {VERSION + 1}" in error.what
    assert f"up to {VERSION}" in error.what


@pytest.mark.parametrize("opening", [open_store, DuckDbReader.open])
def test_a_file_in_use_says_by_whom_and_what_to_do(stored, opening):
    """The error names the process that holds the file, and --url."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(stored)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        error = refusal(stored, opening)
        holder.stdin.close()

    assert f"PID {holder.pid}" in error.what
    assert "--url" in error.fix


def test_a_second_owner_in_the_same_process_is_refused(stored):
    """Two owners would each think their positions are the only ones."""
    with open_store(stored):
        assert "already open in this process" in refusal(stored).what


def test_a_file_of_another_kind_is_refused(tmp_path):
    """A text is not overwritten."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"# a text\n" * 999)

    assert "not a DuckDB file" in refusal(path).what


@pytest.mark.parametrize("written_bytes", [0, 4096, 8192])
def test_a_file_whose_creation_was_cut_short_is_made_anew(stored, written_bytes):
    """A disk that was full when the store was made leaves one; once there is room, the next start works."""
    stored.write_bytes(stored.read_bytes()[:written_bytes])

    refusal(stored, DuckDbReader.open)
    with open_store(stored) as store:
        assert store.append(batch(0)).rows == {"coverage": 1}


def test_the_short_start_of_a_store_with_a_log_is_kept(stored):
    """Its log may hold what someone can still rescue: both are set aside."""
    stored.write_bytes(stored.read_bytes()[:4096])
    stored.with_name(f"{stored.name}.wal").write_bytes(b"log")

    open_store(stored).close()

    (log,) = stored.parent.glob("store.duckdb.damaged-*.wal")
    assert log.read_bytes() == b"log"


def test_an_empty_file_that_someone_is_about_to_write_is_left(tmp_path):
    """Between its creation and its first byte a store is locked, and not ours to remove."""
    path = tmp_path / "store.duckdb"
    path.touch()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            LOCKER,
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        refusal(path)

        assert path.stat().st_size == 0
        holder.terminate()


DAMAGED_AT = {"header": 4096 + 9, "header 2": 8192 + 9, "data": 12288 + 99}


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def cut_in_half(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_file_without_the_marks_of_a_database_is_not_moved(stored):
    """It may be anyone's."""
    flip(stored, 9)

    assert "not a DuckDB file" in refusal(stored).what


@pytest.mark.parametrize("at", DAMAGED_AT.values(), ids=DAMAGED_AT)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(stored, at, caplog):
    """It is kept as it was found, and named; feeds are asked for everything they still hold."""
    flip(stored, at)
    found = stored.read_bytes()

    with open_store(stored) as store:
        assert store.position("node-1") is None
        store.append(Ledger().batches(60))

    (aside,) = stored.parent.glob("store.duckdb.damaged-*")
    assert aside.read_bytes() == found
    assert str(aside) in caplog.text


def test_what_is_set_aside_takes_no_ones_place(stored):
    """Two damages within a second are two files."""
    for _ in range(2):
        flip(stored, DAMAGED_AT["data"])
        open_store(stored).close()

    assert len(list(stored.parent.glob("store.duckdb.damaged-*"))) == 2


@pytest.mark.parametrize("damage", [lambda path: flip(path, 12288 + 99), cut_in_half], ids=["flipped", "cut"])
def test_a_reader_changes_nothing_of_a_damaged_file(stored, damage):
    """Only its owner sets it aside."""
    damage(stored)
    before = stored.read_bytes()

    with pytest.raises(StoreUnusable, match="damaged") as told:
        DuckDbReader.open(stored).row_counts()
    assert "sets it aside" in told.value.fix
    assert stored.read_bytes() == before


@pytest.fixture
def logged(stored):
    """The same store with a hundred more batches that are only in its log."""
    program = (
        "import os, sys\nfrom tests.ledgers import START, Ledger\nfrom tierscope.storage.store import Store\n"
        "store = Store.open(sys.argv[1], clock=lambda: START)\n"
        "for one in Ledger().batches(160)[60:]: store.append(one)\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(stored)], check=True)
    return stored


def test_a_log_with_a_damaged_entry_is_kept_and_cut_before_it(logged):
    """What was logged before the damage is there; what came after is asked for again."""
    log = logged.with_name("store.duckdb.wal")
    flip(log, log.stat().st_size * 3 // 4)
    found = log.read_bytes()

    with open_store(logged) as store:
        position = store.position("node-1").sequence
        assert 59 < position < 159
        assert (
            store.reader().totals("prod", "chat", ALL_TIME).tokens
            == store.reader().window("prod", "chat", ALL_TIME).totals()
        )

    (aside,) = logged.parent.glob("store.duckdb.wal.damaged-*")
    assert aside.read_bytes() == found


def test_a_log_that_ends_in_zeros_loses_its_end(logged):
    """As a file system leaves it when the power goes: the length is there, the contents are not."""
    log = logged.with_name("store.duckdb.wal")
    content = log.read_bytes()
    written = len(content) * 3 // 4
    log.write_bytes(content[:written] + bytes(len(content) - written))

    with open_store(logged) as store:
        assert 59 < store.position("node-1").sequence < 159


def test_damage_that_an_append_meets_sets_the_file_aside(stored):
    """The append fails; the same batch goes into a new file, which tells what it misses."""
    with open_store(stored) as store:
        damage = StoreDamaged("the store is damaged: a block", where=str(stored), fix="none")
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr("tierscope.storage.store.write", raising(damage))
            with pytest.raises(StoreUnusable, match="a block"):
                store.append(batch(60))

        store.append(batch(60))

        (feed,) = store.reader().coverage(ALL_TIME)
        assert (feed.received, feed.missing) == (1, 60)
    assert len(list(stored.parent.glob("store.duckdb.damaged-*"))) == 1


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["copy", "cut"])
def test_a_full_disk_keeps_a_damaged_log_as_it_is(logged, step, monkeypatch):
    """Nothing is left of a copy that did not fit, however often it is tried; with room the store opens."""
    log = logged.with_name("store.duckdb.wal")
    flip(log, log.stat().st_size * 3 // 4)
    found = log.read_bytes()

    def copy_a_part(_, target):
        target.write_bytes(found[:100])
        raise NO_SPACE

    for _ in range(2):
        with monkeypatch.context() as full:
            if step == "copy":
                full.setattr(recovery.shutil, "copyfile", copy_a_part)
            else:
                full.setattr(recovery.os, "truncate", raising(NO_SPACE))
            told = refusal(logged)
        assert "cannot be set aside: No space left" in told.what
        assert "space" in told.fix
        assert list(logged.parent.glob("*damaged-*")) == []
        assert log.read_bytes() == found

    with open_store(logged) as store:
        assert 59 < store.position("node-1").sequence < 159


def test_a_file_whose_log_cannot_be_moved_stays_beside_it(stored, monkeypatch):
    """One without the other is of no use."""
    flip(stored, DAMAGED_AT["data"])
    log = stored.with_name(f"{stored.name}.wal")
    log.write_bytes(b"log")
    rename = Path.rename

    def refuse_logs(path, target):
        if path == log:
            raise NO_SPACE
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse_logs)
    damage = StoreDamaged("the store is damaged: a block", where=str(stored), fix="none")
    with pytest.raises(StoreUnusable, match="cannot be set aside"):
        recovery.recover(stored, damage, START)

    assert stored.exists()
    assert log.exists()
    assert list(stored.parent.glob("*damaged-*")) == []


FULL = StoreUnusable("No space left", where="store", fix="free some space")


@pytest.mark.parametrize(
    ("step", "error"), [("pathlib.Path.rename", NO_SPACE), ("tierscope.storage.store.prepare", FULL)]
)
def test_an_append_that_cannot_begin_a_new_file_can_be_tried_again(stored, monkeypatch, step, error):
    """The store is not closed for good, be it the damaged file that cannot be moved or the new one made."""
    with open_store(stored) as store:
        damage = StoreDamaged("the store is damaged: a block", where=str(stored), fix="none")
        with monkeypatch.context() as broken:
            broken.setattr("tierscope.storage.store.write", raising(damage))
            broken.setattr(step, raising(error))
            with pytest.raises(StoreUnusable, match="No space left"):
                store.append(batch(60))

        store.append(batch(60))

        assert store.position("node-1").sequence == 60


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


def test_somebody_elses_database_is_refused(tmp_path):
    """Our tables are not put among theirs."""
    path = tmp_path / "theirs.duckdb"
    change(path, "CREATE TABLE invoices (n INTEGER)")

    assert "invoices" in refusal(path).what


def test_a_folder_that_is_missing_is_named(tmp_path):
    """A typing error in a path makes no folders."""
    assert "No such file or directory" in refusal(tmp_path / "missing" / "store.duckdb").what


def test_a_folder_is_not_a_file(tmp_path):
    """A folder given for the file is told as that."""
    assert "Is a directory" in refusal(tmp_path).what


def test_a_missing_file_is_made_for_an_owner_and_not_for_a_reader(tmp_path):
    """Only who writes creates."""
    path = tmp_path / "store.duckdb"

    assert "no store" in refusal(path, DuckDbReader.open).what
    open_store(path).close()
    DuckDbReader.open(path).close()


def test_a_database_without_tables_is_one_that_was_never_finished(tmp_path):
    """A process killed while it created the file leaves an empty database: an owner finishes it."""
    path = tmp_path / "store.duckdb"
    change(path, "SELECT 1")

    assert "empty" in refusal(path, DuckDbReader.open).what
    with open_store(path) as store:
        assert store.append(batch(0)).rows == {"coverage": 1}


def test_a_database_of_a_newer_duckdb_is_told_as_that(tmp_path, monkeypatch):
    """The file format is not ours to read; the error names both versions."""

    def newer(*_, **__):
        raise duckdb.IOException(
            "IO Error: Trying to read a database file with version number 99, but we can only read "
            "versions between 64 and 67. The database file was created with a newer version of DuckDB."
        )

    monkeypatch.setattr(duckdb, "connect", newer)

    assert "format 99; this release reads between 64 and 67" in refusal(tmp_path / "store.duckdb").what
