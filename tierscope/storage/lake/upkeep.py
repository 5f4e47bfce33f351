"""What a lake needs now and then: rows out of PostgreSQL into files, small files joined, old ones deleted.

Rows that a release before the partitions wrote go into files of their day.

One maintainer at a time does it: who holds a lock of PostgreSQL. Everything here may be stopped anywhere;
what is not done is done the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from tierscope.storage.database import Database
from tierscope.storage.lake.days import fill_days
from tierscope.storage.lake.failures import StoreContended
from tierscope.storage.lake.place import ask_postgres, quoted
from tierscope.storage.schema import TABLES
from tierscope.storage.turns import LakeTurns, rolled_back

log = logging.getLogger(__name__)

MAINTAINING_LOCK = 0x7469_6573
"""PostgreSQL's advisory lock of the one that maintains a lake."""

_INLINED = """
SELECT DISTINCT named.table_name, inlined.table_name AS inlined FROM ducklake_inlined_data_tables AS inlined
JOIN ducklake_table AS named USING (table_id) WHERE named.end_snapshot IS NULL
"""
"""A table, and the name of the one in PostgreSQL that has those of its rows that are in no file."""

_FLUSH = "CALL ducklake_flush_inlined_data('lake', table_name => '{table}')"
_FILES = """
SELECT DISTINCT table_name FROM ducklake_table AS named JOIN ducklake_data_file AS file USING (table_id)
WHERE named.end_snapshot IS NULL AND file.end_snapshot IS NULL ORDER BY table_name
"""
_JOIN = (
    "CALL ducklake_rewrite_data_files('lake', '{table}', delete_threshold => 0.1)",
    "CALL ducklake_merge_adjacent_files('lake', '{table}')",
)
_DELETE = (
    "CALL ducklake_expire_snapshots('lake', older_than => now() - INTERVAL {seconds} SECOND)",
    "CALL ducklake_cleanup_old_files('lake', older_than => now() - INTERVAL {seconds} SECOND)",
)


_PARTITIONED = {table.name for table in TABLES if table.partitions}


@contextmanager
def elected(database: Database) -> Iterator[bool]:
    """Whether this process maintains the lake for the body's time; others are told that they do not."""
    with database.reading() as cursor:
        cursor.begin()
        with rolled_back(cursor):
            ((chosen,),) = ask_postgres(cursor, f"SELECT pg_try_advisory_xact_lock({MAINTAINING_LOCK}) AS ok")
            yield bool(chosen)


def compact(database: Database, turns: LakeTurns, keep_snapshots_seconds: float) -> int:
    """Do all of it; return how many rows went into files.

    A step that meets another collector's commit is left for the next time. Writers wait while the rows of
    one table are moved, and while the files of one that appends change rows of are joined; not for those of
    the partitioned ones, which are large, and to which appends only add.
    """
    flushed = 0
    for table in _waiting(database):
        with turns.queued():
            flushed += sum(rows for *_, rows in _done(database, _FLUSH.format(table=table)))
    fill_days(database)
    for table in _with_files(database):
        with nullcontext() if table in _PARTITIONED else turns.queued():
            for statement in _JOIN:
                _done(database, statement.format(table=table))
    seconds = max(1, round(keep_snapshots_seconds))
    for statement in _DELETE:
        _done(database, statement.format(seconds=seconds))
    return flushed


def _waiting(database: Database) -> list[str]:
    """The tables of which rows wait in PostgreSQL, in order."""
    with database.reading() as cursor:
        inlined = ask_postgres(cursor, _INLINED)
        has_rows = " UNION ALL ".join(
            f"SELECT {quoted(table)} AS name WHERE EXISTS (SELECT 1 FROM {rows})" for table, rows in inlined
        )
        return sorted({name for (name,) in ask_postgres(cursor, has_rows)}) if inlined else []


def _with_files(database: Database) -> list[str]:
    """The tables that have files in force, in order."""
    with database.reading() as cursor:
        return [name for (name,) in ask_postgres(cursor, _FILES)]


def _done(database: Database, statement: str) -> list[tuple[Any, ...]]:
    try:
        with database.transaction(beside_writer=True) as cursor:
            return cursor.execute(statement).fetchall()
    except StoreContended as error:
        log.info("left for the next time: %s", error.what)
        return []
