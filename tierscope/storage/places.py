"""Where a store lies, and all that depends on it: a file that one process owns, or a lake that many share."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Protocol

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.failures import explained
from tierscope.storage.recovery import log_of

Config = dict[str, str | bool | int | float | list[str]]

_USED_BYTES = """
SELECT used_blocks * block_size FROM pragma_database_size() WHERE database_name = current_database()
"""


class Place(Protocol):
    """A place of a store. `shared`: others write it too, so what this process remembers may be old."""

    shared: bool

    @property
    def name(self) -> str:
        """How errors name it; without credentials."""
        ...

    def connect(self, *, read_only: bool, threads: int) -> duckdb.DuckDBPyConnection:
        """Open it; errors are DuckDB's own."""
        ...

    def enter(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make a new cursor see the store's tables under their plain names."""
        ...

    def begun(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """The cursor has begun a transaction that writes."""
        ...

    def explained(self, error: duckdb.Error) -> StoreUnusable:
        """Tell DuckDB's error as what is wrong, where, and what to do."""
        ...

    def size_bytes(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """Bytes on disk."""
        ...

    def used_bytes(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """Bytes of these that hold something."""
        ...


def configured(threads: int, **more: str | bool) -> Config:
    """The configuration of a connection.

    One that no one else has makes a second opening of a file in this process an error; DuckDB would hand
    out the same open file, and two writers would each think they are the only one.
    """
    return {"threads": threads, "custom_user_agent": f"tierscope {uuid.uuid4()}", **more}


class FilePlace:
    """A DuckDB file."""

    shared = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """See `Place`."""
        return str(self.path)

    def connect(self, *, read_only: bool, threads: int) -> duckdb.DuckDBPyConnection:
        """See `Place`."""
        return duckdb.connect(str(self.path), read_only=read_only, config=configured(threads))

    def enter(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """See `Place`; a file's cursor is there."""

    def begun(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """See `Place`; a file has one writer."""

    def explained(self, error: duckdb.Error) -> StoreUnusable:
        """See `Place`."""
        return explained(error, self.path)

    def size_bytes(self, cursor: duckdb.DuckDBPyConnection | None = None) -> int:  # noqa: ARG002  a file is asked
        """See `Place`; the write-ahead log is included."""
        files = (self.path, log_of(self.path))
        return sum(file.stat().st_size for file in files if file.exists())

    def used_bytes(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """See `Place`; freed blocks are used again before the file grows."""
        row = cursor.execute(_USED_BYTES).fetchone()
        log = log_of(self.path)
        return int(row[0] if row else 0) + (log.stat().st_size if log.exists() else 0)
