"""A store's file into a lake: all of it or nothing, and once however often it is asked for."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.columns import FEED, Table
from tierscope.storage.lake.place import quoted
from tierscope.storage.schema import COUNTER_STATES, FEED_POSITIONS, SCHEMA_VERSION, TABLES

_FILE = "moved_file"
_MOVES = "CREATE TABLE IF NOT EXISTS lake_moves (moved VARCHAR NOT NULL, at_unix_seconds DOUBLE NOT NULL)"
_RUNS = f"SELECT exporter, incarnation FROM {_FILE}.{FEED_POSITIONS.name}"
_IDENTITY = f"""
SELECT exporter, incarnation, sequence FROM {_FILE}.{FEED_POSITIONS.name} ORDER BY ALL
"""
_SHARED_RUNS = f"""
SELECT exporter, incarnation FROM {FEED_POSITIONS.name}
SEMI JOIN ({_RUNS}) AS file USING (exporter, incarnation)
"""
_NEW_STANDS = f"ANTI JOIN {COUNTER_STATES.name} AS known USING (exporter, kind, owner, model)"


def move(cursor: duckdb.DuckDBPyConnection, file: Path, at_unix_seconds: float) -> dict[str, int]:
    """Copy every row of a store's file, which nobody may write, into the lake, in the caller's transaction.

    Runs of exporters get new numbers, after those of the lake. Returns rows by table; all 0 for a file that
    is in the lake already. Raises `StoreUnusable` where the lake has some of its feeds from elsewhere:
    both would count.
    """
    cursor.execute(_MOVES)
    identity = _identity(cursor)
    done = cursor.execute("SELECT count(*) FROM lake_moves WHERE moved = ?", [identity]).fetchone()
    if done is not None and done[0]:
        return {table.name: 0 for table in TABLES}
    _refuse_shared(cursor, file)
    first = cursor.execute(f"SELECT coalesce(max(feed) + 1, 0) FROM {FEED_POSITIONS.name}").fetchone()
    assert first is not None, "an aggregate has a row"
    moved = {table.name: _copy(cursor, table, int(first[0])) for table in TABLES if table != SCHEMA_VERSION}
    cursor.execute("INSERT INTO lake_moves VALUES (?, ?)", [identity, at_unix_seconds])
    return moved


def attach(cursor: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Make the file readable for `move`, before its transaction."""
    cursor.execute(f"ATTACH {quoted(file)} AS {_FILE} (READ_ONLY)")


def detach(cursor: duckdb.DuckDBPyConnection) -> None:
    """Give the file back."""
    cursor.execute(f"DETACH {_FILE}")


def _identity(cursor: duckdb.DuckDBPyConnection) -> str:
    """What a file is known by: its feeds and how far they are stored."""
    runs = cursor.execute(_IDENTITY).fetchall()
    return blake2b(repr(runs).encode(), digest_size=16).hexdigest()


def _refuse_shared(cursor: duckdb.DuckDBPyConnection, file: Path) -> None:
    shared = cursor.execute(_SHARED_RUNS).fetchall()
    if shared:
        names = ", ".join(sorted({str(exporter) for exporter, _ in shared})[:3])
        raise StoreUnusable(
            f"the lake has rows of the same runs of {len(shared)} exporters already ({names}): they would "
            "count twice",
            where=str(file),
            fix="move a file before collectors write into the lake; or restart these exporters first and let "
            "the old file be",
        )


def _copy(cursor: duckdb.DuckDBPyConnection, table: Table, first_feed: int) -> int:
    feed = (
        f" REPLACE (CAST({FEED.name} + {first_feed} AS UINTEGER) AS {FEED.name})" if _has_feed(table) else ""
    )
    known = _NEW_STANDS if table == COUNTER_STATES else ""
    row = cursor.execute(
        f"INSERT INTO {table.name} BY NAME SELECT *{feed} FROM {_FILE}.{table.name} AS file {known}"
    ).fetchone()
    return int(row[0]) if row else 0


def _has_feed(table: Table) -> bool:
    return any(column.name == FEED.name for column in table.columns)
