"""Opening a store's file: make its tables, or find out that the file is not one we can use."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.database import Database
from tierscope.storage.schema import SCHEMA_VERSION, TABLES, VERSION
from tierscope.storage.views import VIEWS

_HEADERS_BYTES = 3 * 4096
"""No DuckDB file is shorter: one main header and two that take turns."""

_MAGIC, _MAGIC_AT = b"DUCK", 8


def open_to_write(path: Path, clock: Callable[[], float]) -> Database:
    """Open or create the store at `path` as its only owner; raises `StoreUnusable`."""
    _remove_unfinished(path)
    database = Database(path)
    try:
        if not _is_store(database):
            _create(database, clock())
        with database.transaction() as cursor:
            for view in VIEWS:
                for statement in view.ddl():
                    cursor.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


def _remove_unfinished(path: Path) -> None:
    """Remove what a full disk or a kill leaves of a file that was only just being created.

    Such a file ends before its three headers do, and has no log. DuckDB locks a file before it writes,
    so one that can be locked is nobody's.
    """
    try:
        if not path.is_file() or path.stat().st_size >= _HEADERS_BYTES or _log_of(path).exists():
            return
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            start = file.read(_MAGIC_AT + len(_MAGIC))
            if not start or start[_MAGIC_AT:] == _MAGIC:
                path.unlink()
    except OSError:
        return  # DuckDB will say what is wrong with it


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def open_to_read(path: Path) -> Database:
    """Open an existing store that no process writes; many may read. Raises `StoreUnusable`."""
    if not path.exists():
        raise StoreUnusable("there is no store", where=str(path), fix="name the file a collector has written")
    database = Database(path, read_only=True)
    try:
        found = _is_store(database)
    except BaseException:
        database.close()
        raise
    if not found:
        database.close()
        raise StoreUnusable("the store is empty", where=str(path), fix="let a collector write into it first")
    return database


def _is_store(database: Database) -> bool:
    """Whether our tables are in the file; False for a file without any tables, an error for any other."""
    with database.reading() as cursor:
        names = {name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        version = _version(cursor) if SCHEMA_VERSION.name in names else None
    if version is None and names:
        raise StoreUnusable(
            f"the file is a DuckDB file of someone else; it holds {', '.join(sorted(names)[:3])}",
            where=str(database.path),
            fix="name another file for the store; nothing was changed",
        )
    if version is not None and version > VERSION:
        raise StoreUnusable(
            f"the store is of version {version}; this release knows versions up to {VERSION}",
            where=str(database.path),
            fix="use the release that wrote it, or a later one; nothing was changed",
        )
    return version is not None


def _version(cursor: duckdb.DuckDBPyConnection) -> int | None:
    row = cursor.execute(f"SELECT max(version) FROM {SCHEMA_VERSION.name}").fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _create(database: Database, at_unix_seconds: float) -> None:
    with database.transaction() as cursor:
        for table in TABLES:
            cursor.execute(table.ddl())
        cursor.execute(f"INSERT INTO {SCHEMA_VERSION.name} VALUES (?, ?)", [VERSION, at_unix_seconds])
