"""A file that cannot be the store is named, with the reason, and left as it was."""

from __future__ import annotations

import subprocess
import sys

import duckdb
import pytest

from tests.ledgers import START, Ledger, batch
from tierscope.domain.errors import StoreUnusable
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.schema import VERSION
from tierscope.storage.store import Store

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


def test_the_short_start_of_a_store_with_a_log_is_left(stored):
    """Its log may hold what someone can still rescue."""
    stored.write_bytes(stored.read_bytes()[:4096])
    stored.with_name(f"{stored.name}.wal").write_bytes(b"log")

    refusal(stored)


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


@pytest.mark.parametrize(
    "at", [9, 4096 + 9, 8192 + 9, 12288 + 99], ids=["magic", "header", "header 2", "data"]
)
def test_a_damaged_file_is_refused(stored, at):
    """A flipped byte is found by DuckDB's checksums, and told."""
    content = bytearray(stored.read_bytes())
    content[at] ^= 0xFF
    stored.write_bytes(content)

    assert "damaged" in refusal(stored).what


def test_a_truncated_file_is_refused(stored):
    """Half a file is a damaged file."""
    content = stored.read_bytes()
    stored.write_bytes(content[: len(content) // 2])

    with pytest.raises(StoreUnusable, match="damaged"):
        DuckDbReader.open(stored).row_counts()


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
