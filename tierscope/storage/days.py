"""The day of rows that a release before the column wrote, worked out from the times beside it."""

from __future__ import annotations

import duckdb

from tierscope.storage.columns import DAY_SECONDS
from tierscope.storage.schema import BLOCK_EVENTS, REQUESTS

TIMES = {REQUESTS.name: ("hour", 24), BLOCK_EVENTS.name: ("at_unix_seconds", DAY_SECONDS)}
"""Of each table with a day: which column says when a row was, and how many of its units are a day."""


def fill_days(cursor: duckdb.DuckDBPyConnection) -> int:
    """Give every row its day, inside the caller's transaction; return how many had none."""
    return sum(counted(cursor, f"{filling(table)} WHERE day IS NULL") for table in TIMES)


def filling(table: str) -> str:
    """The statement that gives rows of a table their day, up to its condition."""
    return f"UPDATE {table} SET day = DATE '1970-01-01' + {number_of_day(table)}"


def number_of_day(table: str) -> str:
    """The day of a row, since 1970, as SQL."""
    time, units = TIMES[table]
    return f"CAST(floor({time} / {units}) AS INTEGER)"


def counted(cursor: duckdb.DuckDBPyConnection, statement: str) -> int:
    """Run a statement; return how many rows it changed."""
    row = cursor.execute(statement).fetchone()
    return int(row[0]) if row else 0
