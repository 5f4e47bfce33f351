"""Bringing a store of any earlier version up to this release's tables and views.

A version differs from the one before by tables and columns that were added, so what a file lacks is what
has to be done; nothing is rewritten, and rows of before have NULL where they say nothing (their day alone is
worked out: see `days`).
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from tierscope.storage.schema import SCHEMA_VERSION, TABLES, VERSION
from tierscope.storage.views import VIEWS


def bring_up(cursor: duckdb.DuckDBPyConnection, version: int | None, at_unix_seconds: float) -> None:
    """Make a store of `version` (None: an empty file) one of `VERSION`, inside the caller's transaction.

    Views are made anew each time: their queries may change in any release.
    """
    present = _columns(cursor)
    for table in TABLES:
        if table.name not in present:
            cursor.execute(table.ddl())
            continue
        for statement in table.additions(present[table.name]):
            cursor.execute(statement)
    if version is None or version < VERSION:
        cursor.execute(f"INSERT INTO {SCHEMA_VERSION.name} VALUES (?, ?)", [VERSION, at_unix_seconds])
    for view in VIEWS:
        for statement in view.ddl():
            cursor.execute(statement)


def _columns(cursor: duckdb.DuckDBPyConnection) -> Mapping[str, set[str]]:
    """The columns of each table of the file, by its name."""
    found: dict[str, set[str]] = {}
    names = cursor.execute(
        "SELECT table_name, column_name FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database()"
    )
    for table, column in names.fetchall():
        found.setdefault(table, set()).add(column)
    return found
