"""What DuckDB says is told as what is wrong, and never as damage that is none."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tierscope.storage.failures import StoreDamaged, explained
from tierscope.storage.lake.failures import StoreContended, lake_explained


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Read-only file system", "cannot be opened or written: Read-only file system"),
        ("Permission denied", "cannot be opened or written: Permission denied"),
        ("Not a directory", "cannot be opened or written: Not a directory"),
        ("Too many open files", "may open no more files"),
        ("No space left on device", "the disk is full"),
    ],
)
def test_what_the_system_refuses_is_no_damage(reason, told):
    """Nobody is told to move away a file that is whole."""
    error = explained(
        duckdb.IOException(f'IO Error: Cannot open file "a.duckdb": {reason}'), Path("a.duckdb")
    )

    assert told in error.what
    assert "damaged" not in error.what


REPLAYED = '{} Error: Failure while replaying WAL file "/data/store.duckdb.wal": {}'


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "Out of Memory Error: could not allocate block of size 16.0 KiB (282.0 KiB/292.9 KiB used)",
            "no memory",
        ),
        ('IO Error: Could not read from file "store.duckdb": Input/output error', "Input/output error"),
        ('IO Error: Could not read from file "store.duckdb": Stale file handle', "Stale file handle"),
        ('IO Error: Cannot open file "store.duckdb.wal": Too many open files', "no more files"),
        ('IO Error: Could not write file "store.duckdb": No space left on device', "the disk is full"),
    ],
)
def test_what_kept_a_log_from_being_read_is_no_damage(reason, told):
    """DuckDB puts the same words before it; the store and its log are whole and stay in their place."""
    error = explained(duckdb.IOException(REPLAYED.format(*reason.split(" Error: "))), Path("store.duckdb"))

    assert told in error.what
    assert not isinstance(error, StoreDamaged)


@pytest.mark.parametrize(
    ("reason", "log_bytes"),
    [
        ("IO Error: Corrupt WAL file: entry at byte position 512 computed checksum 1 does not match", 512),
        ("IO Error: Could not read enough bytes from file: attempted to read 8 bytes from location 4", None),
        (
            "IO Error: Corrupt database file: computed checksum 1 does not match stored checksum 2 in block",
            None,
        ),
        ("Serialization Error: Failed to deserialize: field id mismatch", None),
        ("Catalog Error: Table with name requests does not exist!", None),
    ],
)
def test_a_log_that_cannot_be_understood_is_damage(reason, log_bytes):
    """Known words or none: what was logged cannot be played back."""
    error = explained(duckdb.IOException(REPLAYED.format(*reason.split(" Error: "))), Path("store.duckdb"))

    assert isinstance(error, StoreDamaged)
    assert error.log_bytes == log_bytes


@pytest.mark.parametrize(
    "said",
    [
        "Failed to create checkpoint: failed to pin block of size 256.0 KiB (31.7 MiB/32.0 MiB used)",
        "Out of Memory Error: could not allocate block of size 256.0 KiB (127.9 MiB/128.0 MiB used)",
        "Out of Memory Error: failed to allocate data of size 16.0 MiB (120.1 MiB/128.0 MiB used)",
    ],
)
@pytest.mark.parametrize("explain", [explained, lambda error, where: lake_explained(error, str(where))])
def test_a_lack_of_memory_is_no_damage(said, explain):
    """It is told which setting to raise."""
    error = explain(duckdb.FatalException(said), Path("a.duckdb"))

    assert "no memory left" in error.what
    assert "store_memory_bytes" in error.fix


UNREACHED = (
    "IO Error: Failed to query most recent snapshot for DuckLake: Unable to connect to Postgres at "
    '"dbname=lake host=10.0.0.1 port=5432 connect_timeout=10": connection to server at "10.0.0.1", port 5432 '
    "failed: {}\n\tIs the server running on that host and accepting TCP/IP connections?"
)
BROKEN_OFF = (
    "Invalid Input Error: Attempting to fetch from an unsuccessful query result\nError: TransactionContext "
    "Error: Current transaction is aborted (please ROLLBACK)"
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (UNREACHED.format("Invalid argument"), "PostgreSQL failed: Invalid argument"),
        (UNREACHED.format("Network is unreachable"), "does not answer: Network is unreachable"),
        (UNREACHED.format("SSL error: unexpected eof while reading"), "was lost"),
        (UNREACHED.format("Connection refused"), "does not answer: Connection refused"),
        (
            UNREACHED.format('FATAL:  password authentication failed for user "tierscope"'),
            "refuses this user: password authentication failed",
        ),
        (
            'TransactionContext Error: Failed to commit: Failed to execute query "ROLLBACK": ',
            "was broken off",
        ),
        (BROKEN_OFF, "was broken off"),
    ],
)
def test_a_postgresql_that_is_away_is_nothing_to_report(said, told):
    """Whatever the system calls it: a person is told what to look at, and that collectors go on."""
    error = lake_explained(duckdb.Error(said), "a lake")

    assert told in error.what
    assert "report" not in error.fix


@pytest.mark.parametrize(
    ("said", "told", "fix"),
    [
        ("FATAL:  sorry, too many clients already", "takes no more connections: sorry", "max_connections"),
        (
            "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "takes no more connections: remaining connection slots are reserved for roles",
            "max_connections",
        ),
        (
            'FATAL:  too many connections for role "tierscope"',
            'takes no more connections: too many connections for role "tierscope"',
            "limit of the role",
        ),
        (
            "SSL error: certificate verify failed",
            "no encrypted connection to the lake's PostgreSQL: SSL error: certificate verify failed",
            "sslrootcert",
        ),
        (
            "server does not support SSL, but SSL was required",
            "no encrypted connection to the lake's PostgreSQL: server does not support SSL",
            "sslmode",
        ),
        (
            'root certificate file "/ca.pem" does not exist',
            'root certificate file "/ca.pem" does not exist',
            "sslrootcert",
        ),
        (
            'FATAL:  parameter "x" cannot be changed',
            'PostgreSQL failed: FATAL:  parameter "x"',
            "what it says",
        ),
    ],
)
def test_a_postgresql_that_answers_no_is_not_said_to_be_silent(said, told, fix):
    """What it refuses is told in its words, and nobody is sent to look at host and port."""
    error = lake_explained(duckdb.Error(UNREACHED.format(said)), "a lake")

    assert told in error.what
    assert fix in error.fix
    assert "does not answer" not in error.what
    assert "host and port" not in error.fix


def test_the_tls_of_an_object_store_is_not_taken_for_postgresqls():
    """Nobody is sent to the settings of the wrong one."""
    said = (
        "IO Error: SSL error: certificate verify failed for HTTP GET to 'https://bucket.example/rows.parquet'"
    )

    assert "PostgreSQL" not in lake_explained(duckdb.Error(said), "a lake").what


@pytest.mark.parametrize(
    "said",
    [
        'IO Error: Cannot open file "/lake/main/requests/ducklake-01a2.parquet": No such file or directory',
        'HTTP Error: Unable to connect to URL "http://s3/lake/main/ducklake-01a2.parquet": 404 (Not Found)',
        "Failed to commit DuckLake transaction: ERROR:  lake_fence: table 7 has changed since snapshot 12",
    ],
)
def test_who_began_with_a_state_of_the_lake_that_is_gone_tries_again(said):
    """Its files are deleted, or the fence refuses it: with what it then sees it may succeed."""
    assert isinstance(lake_explained(duckdb.Error(said), "a lake"), StoreContended)


def test_a_user_who_may_not_build_the_fence_is_told_who_may():
    """Collectors want the rights of whoever made the lake."""
    error = lake_explained(duckdb.Error("ERROR:  must be owner of table ducklake_snapshot_changes"), "a lake")

    assert "does not let this user" in error.what
    assert "user that made the lake" in error.fix
