"""Partitions of a lake: rows of a day (and model) in files of their own, which go when the day does."""

from __future__ import annotations

import duckdb

from tierscope.storage.lake.place import ask_postgres
from tierscope.storage.schema import TABLES

_DONE = """
SELECT DISTINCT table_name FROM ducklake_partition_info JOIN ducklake_table USING (table_id)
WHERE ducklake_partition_info.end_snapshot IS NULL AND ducklake_table.end_snapshot IS NULL
"""


def partition_tables(cursor: duckdb.DuckDBPyConnection) -> None:
    """Let rows go into files of their partition from now on, inside the caller's transaction.

    Files that are there stay as they are; upkeep moves their rows. Saying it once more would begin new
    partitions, whose files are not joined with those of before.
    """
    done = {name for (name,) in ask_postgres(cursor, _DONE)}
    for table in TABLES:
        if table.partitions and table.name not in done:
            cursor.execute(f"ALTER TABLE {table.name} SET PARTITIONED BY ({', '.join(table.partitions)})")
