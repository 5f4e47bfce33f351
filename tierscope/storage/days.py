"""The day of rows that a release before the column wrote, worked out from the times beside it."""

from __future__ import annotations

import duckdb

from tierscope.storage.columns import DAY_SECONDS
from tierscope.storage.schema import BLOCK_EVENTS, REQUESTS

_TIMES = {REQUESTS.name: ("hour", 24), BLOCK_EVENTS.name: ("at_unix_seconds", DAY_SECONDS)}
"""Which column says when a row was, and how many of its units are a day."""


def fill_days(cursor: duckdb.DuckDBPyConnection) -> int:
    """Give every row its day, inside the caller's transaction; return how many had none."""
    return sum(_count(cursor, f"{_filling(table)} WHERE day IS NULL") for table in _TIMES)


def days_to_fill(cursor: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    """The tables and days (since 1970) that have rows without theirs, the latest day first."""
    found = " UNION ALL ".join(
        f"SELECT DISTINCT '{table}' AS name, {_number(table)} AS number FROM {table} WHERE day IS NULL"
        for table in _TIMES
    )
    return cursor.execute(f"FROM ({found}) ORDER BY number DESC, name").fetchall()


def fill_day(cursor: duckdb.DuckDBPyConnection, table: str, number: int) -> int:
    """Give the rows of one day theirs, in a lake into files of that day; return how many there were."""
    time, units = _TIMES[table]
    first, end = number * units, (number + 1) * units
    return _count(cursor, f"{_filling(table)} WHERE day IS NULL AND {time} >= {first} AND {time} < {end}")


def _filling(table: str) -> str:
    return f"UPDATE {table} SET day = DATE '1970-01-01' + {_number(table)}"


def _number(table: str) -> str:
    time, units = _TIMES[table]
    return f"CAST(floor({time} / {units}) AS INTEGER)"


def _count(cursor: duckdb.DuckDBPyConnection, statement: str) -> int:
    row = cursor.execute(statement).fetchone()
    return int(row[0]) if row else 0
