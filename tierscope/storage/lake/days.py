"""Rows of a lake that a release before the column wrote are given their day, and so files of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import duckdb

from tierscope.domain.window import MOST_UNIX_SECONDS
from tierscope.storage.database import Database
from tierscope.storage.days import TIMES, counted, filling, number_of_day
from tierscope.storage.lake.failures import StoreContended
from tierscope.storage.lake.place import ask_postgres

log = logging.getLogger(__name__)

_SPAN = """
SELECT
  floor(min(coalesce(CAST(told.min_value AS FLOAT8), -{most}))) AS first,
  floor(max(coalesce(CAST(told.max_value AS FLOAT8), {most}))) AS last
FROM ducklake_table AS named
JOIN ducklake_column AS time ON time.table_id = named.table_id AND time.column_name = '{time}'
JOIN ducklake_column AS day ON day.table_id = named.table_id AND day.column_name = 'day'
JOIN ducklake_data_file AS file ON file.table_id = named.table_id
LEFT JOIN ducklake_file_column_stats AS told
  ON told.data_file_id = file.data_file_id AND told.column_id = time.column_id
LEFT JOIN ducklake_file_column_stats AS days
  ON days.data_file_id = file.data_file_id AND days.column_id = day.column_id
WHERE named.table_name = '{table}' AND named.end_snapshot IS NULL AND time.end_snapshot IS NULL
  AND day.end_snapshot IS NULL AND file.end_snapshot IS NULL AND days.null_count IS DISTINCT FROM 0
"""
"""The times of a table's files in force of which the catalogue does not know that every row has its day."""


def fill_days(database: Database) -> int:
    """Bring up rows of before, a day and table a transaction, so that each is short; return how many."""
    filled = 0
    with database.reading() as cursor:
        todo = _days_to_fill(cursor)
    for table, number in todo:
        try:
            with database.transaction(beside_writer=True) as cursor:
                rows = _fill_day(cursor, table, number)
        except StoreContended as error:
            log.info("left for the next time: %s", error.what)
        else:
            log.info("%d rows of %s are in files of their day now", rows, table)
            filled += rows
    return filled


def _days_to_fill(cursor: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    """The tables and days (since 1970) that have rows without theirs, the latest day first.

    The catalogue says where such rows may be: a file is opened neither where there are none (DuckLake itself
    opens every file for `day IS NULL`), nor for times at which none were written.
    """
    found = {(number, table) for table in TIMES for number in _days_of(cursor, table)}
    return [(table, number) for number, table in sorted(found, key=lambda one: (-one[0], one[1]))]


def _fill_day(cursor: duckdb.DuckDBPyConnection, table: str, number: int) -> int:
    """Give the rows of one day theirs, into files of that day; return how many there were."""
    time, units = TIMES[table]
    first, end = number * units, (number + 1) * units
    return counted(cursor, f"{filling(table)} WHERE day IS NULL AND {time} >= {first} AND {time} < {end}")


def _days_of(cursor: duckdb.DuckDBPyConnection, table: str) -> Iterator[int]:
    time, _ = TIMES[table]
    ((first, last),) = ask_postgres(cursor, _SPAN.format(table=table, time=time, most=MOST_UNIX_SECONDS))
    if first is None:
        return
    rows = cursor.execute(
        f"SELECT DISTINCT {number_of_day(table)} FROM {table} "
        f"WHERE day IS NULL AND {time} >= {first:.0f} AND {time} < {last + 1:.0f}"
    )
    yield from (number for (number,) in rows.fetchall())
