"""What DuckDB says is told as what is wrong, and never as damage that is none."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tierscope.storage.failures import explained


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
