"""Opening a store: make its tables, or find out that what is there is not one we can use."""

from __future__ import annotations

import fcntl
import random
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.domain.lake_settings import LakeSettings, is_lake
from tierscope.storage.database import Database
from tierscope.storage.days import fill_days
from tierscope.storage.failures import StoreDamaged
from tierscope.storage.hourly import RETENTION
from tierscope.storage.lake.failures import StoreContended
from tierscope.storage.lake.fence import build_fence
from tierscope.storage.lake.partitions import partition_tables
from tierscope.storage.lake.place import LakePlace
from tierscope.storage.migrations import bring_up
from tierscope.storage.places import FilePlace, Place
from tierscope.storage.recovery import log_of, recover
from tierscope.storage.schema import DEPLOYMENTS, FEED_POSITIONS, SCHEMA_VERSION, VERSION
from tierscope.storage.turns import LakeTurns, say_views_are_ours, views_are_ours

OWNERS_THREADS = 1
"""Of DuckDB, for each that asks it: a second one costs more than it does.

Ten thousand rows handed on between two threads take half as much processor time again. Questions of several
that ask at once run side by side all the same, each in the thread that asks.
"""

_HEADERS_BYTES = 3 * 4096
"""No DuckDB file is shorter: one main header and two that take turns."""

_MAGIC, _MAGIC_AT = b"DUCK", 8


_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary"
_READ_AT_THE_START = (FEED_POSITIONS, RETENTION, DEPLOYMENTS)

_MOST_TRIES = 9
"""Collectors that start together make a lake together; one of them is first."""

_MOST_RECOVERIES = 3
"""A log cut before its first damaged entry may show another damage; then all of it is set aside."""


def place_of(store: str | Path, lake: LakeSettings | None) -> FilePlace | LakePlace:
    """The place that a store's name names."""
    return LakePlace(str(store), lake) if is_lake(store) else FilePlace(Path(store).absolute())


def open_to_write(path: Path, clock: Callable[[], float]) -> Database:
    """Open or create the store at `path` as its only owner; raises `StoreUnusable`.

    A store of an earlier version is brought up to this release's, all of it or nothing. A damaged one is
    set aside, as far as it is damaged, and a new one begun: see `recovery`.
    """
    _remove_unfinished(path)
    for _ in range(_MOST_RECOVERIES):
        try:
            return _opened(path, clock)
        except StoreDamaged as damage:
            recover(path, damage, clock())
    return _opened(path, clock)


def _opened(path: Path, clock: Callable[[], float]) -> Database:
    database = Database(FilePlace(path), threads=OWNERS_THREADS)
    try:
        prepare(database, clock())
    except BaseException:
        database.close()
        raise
    return database


def prepare(database: Database, at_unix_seconds: float) -> None:
    """Make the tables and views of this release in a file, whatever earlier version it has."""
    version = _version_of(database)
    with database.transaction() as cursor:
        bring_up(cursor, version, at_unix_seconds)
        fill_days(cursor)
        for table in _READ_AT_THE_START:  # damage shows when a block is read
            cursor.execute(f"FROM {table.name}").fetchall()


def open_lake(place: LakePlace, clock: Callable[[], float]) -> Database:
    """Open a lake to write it beside others, and make it where it is not there; raises `StoreUnusable`."""
    for tries_left in range(_MOST_TRIES, -1, -1):
        try:
            return _opened_lake(place, clock)
        except StoreContended:
            if not tries_left:
                raise
            time.sleep(random.uniform(0, 1))  # noqa: S311  whoever waits less is first
    raise AssertionError("the last try returns or raises")


def _opened_lake(place: LakePlace, clock: Callable[[], float]) -> Database:
    database = Database(place)
    try:
        with LakeTurns(database).queued():
            build_fence(database)
            _prepare_lake(database, clock())
    except BaseException:
        database.close()
        raise
    return database


def _prepare_lake(database: Database, at_unix_seconds: float) -> None:
    version = _version_of(database)
    with database.transaction() as cursor:
        if views_are_ours(cursor) and version == VERSION:
            return
        bring_up(cursor, version, at_unix_seconds)
        partition_tables(cursor)
        say_views_are_ours(cursor)


def _remove_unfinished(path: Path) -> None:
    """Remove what a full disk or a kill leaves of a file that was only just being created.

    Such a file ends before its three headers do, and has no log. DuckDB locks a file before it writes,
    so one that can be locked is nobody's.
    """
    try:
        if not path.is_file() or path.stat().st_size >= _HEADERS_BYTES or log_of(path).exists():
            return
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            start = file.read(_MAGIC_AT + len(_MAGIC))
            if not start or start[_MAGIC_AT:] == _MAGIC:
                path.unlink()
    except OSError:
        return  # DuckDB will say what is wrong with it


def open_to_read(place: Place) -> Database:
    """Open an existing store, a file only if no process writes it; many may read. Raises `StoreUnusable`."""
    if isinstance(place, FilePlace) and not place.path.exists():
        raise StoreUnusable(
            "there is no store", where=place.name, fix="name the file a collector has written"
        )
    database = Database(place, read_only=True)
    try:
        _check_readable(_version_of(database), place.name)
    except BaseException:
        database.close()
        raise
    return database


def _check_readable(version: int | None, where: str) -> None:
    if version is None:
        raise StoreUnusable("the store is empty", where=where, fix="let a collector write into it first")
    if version < VERSION:
        raise StoreUnusable(
            f"the store is of version {version}; this release reads version {VERSION}",
            where=where,
            fix="`tierscope store upgrade` brings it up to this release, as starting its collector does",
        )


def _version_of(database: Database) -> int | None:
    """The version of the tables in the file; None for a file without any tables.

    Raises `StoreUnusable` for the tables of someone else, and for those of a newer release.
    """
    with database.reading() as cursor:
        names = {name for (name,) in cursor.execute(_TABLES).fetchall()}
        version = _highest(cursor) if SCHEMA_VERSION.name in names else None
    if version is None and names:
        raise StoreUnusable(
            f"the file is a DuckDB file of someone else; it holds {', '.join(sorted(names)[:3])}",
            where=database.place.name,
            fix="name another file for the store; nothing was changed",
        )
    if version is not None and version > VERSION:
        raise StoreUnusable(
            f"the store is of version {version}; this release knows versions up to {VERSION}",
            where=database.place.name,
            fix="use the release that wrote it, or a later one; nothing was changed",
        )
    return version


def _highest(cursor: duckdb.DuckDBPyConnection) -> int | None:
    row = cursor.execute(f"SELECT max(version) FROM {SCHEMA_VERSION.name}").fetchone()
    return None if row is None or row[0] is None else int(row[0])
