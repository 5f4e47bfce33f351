"""Copies of a store that is being written: another store's file, or Parquet for those who read that."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.clickhouse import CLICKHOUSE_FILE, clickhouse_schema
from tierscope.storage.schema import TABLES
from tierscope.storage.views import VIEWS

SCHEMA_FILE = "schema.sql"


def backup(cursor: duckdb.DuckDBPyConnection, target: Path) -> int:
    """Write all of the store, as of this moment, into a new file; return its bytes.

    The file has its name only once it is whole.
    """
    _refuse_taken(target)
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex}.partial")
    name = f"copy_{uuid.uuid4().hex}"
    source = cursor.execute("SELECT current_database()").fetchone()
    assert source is not None, "a connection has a database"
    try:
        cursor.execute(f"ATTACH {_quoted(partial)} AS {name}")
        try:
            cursor.execute(f'COPY FROM DATABASE "{source[0]}" TO {name}')
        finally:
            cursor.execute(f"DETACH {name}")
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        partial.with_name(f"{partial.name}.wal").unlink(missing_ok=True)
        raise
    return target.stat().st_size


def to_parquet(cursor: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, int]:
    """Write every table, all as of one moment, as a Parquet file; return rows by table.

    Beside them are `schema.sql`, which run in the folder gives DuckDB the same tables and views over the
    files, and `clickhouse.sql`, which loads them into ClickHouse.
    The folder has its name only once it is whole.
    """
    _refuse_taken(folder)
    partial = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.partial")
    try:
        partial.mkdir()
        cursor.begin()
        rows = {table.name: _copy_table(cursor, table.name, partial) for table in TABLES}
        cursor.commit()
        (partial / SCHEMA_FILE).write_text(schema_over_parquet())
        (partial / CLICKHOUSE_FILE).write_text(clickhouse_schema())
        partial.rename(folder)
    except OSError as error:
        raise StoreUnusable(
            f"the folder cannot be written: {error.strerror or error}",
            where=str(folder),
            fix="name a folder that is not there yet, in one that can be written",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return rows


def schema_over_parquet() -> str:
    """The statements that make the store's tables and views out of its Parquet files."""
    tables = (f"CREATE VIEW {table.name} AS FROM '{table.name}.parquet'" for table in TABLES)
    views = (statement.strip() for view in VIEWS for statement in view.ddl())
    return ";\n".join([*tables, *views]) + ";\n"


def _copy_table(cursor: duckdb.DuckDBPyConnection, table: str, folder: Path) -> int:
    file = _quoted(folder / f"{table}.parquet")
    row = cursor.execute(f"COPY {table} TO {file} (FORMAT parquet, COMPRESSION zstd)").fetchone()
    return int(row[0]) if row else 0


def _refuse_taken(target: Path) -> None:
    if target.exists():
        raise StoreUnusable(
            "there is something already",
            where=str(target),
            fix="name a path where nothing is; nothing was changed",
        )


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
