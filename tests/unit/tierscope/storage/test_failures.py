"""What DuckDB says is told as what is wrong, and never as damage that is none."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tierscope.storage.failures import explained
from tierscope.storage.lake.failures import lake_explained


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
        (UNREACHED.format("Invalid argument"), "does not answer: Invalid argument"),
        (UNREACHED.format("Network is unreachable"), "does not answer: Network is unreachable"),
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
