"""What advice rests on and what it was: an endpoint's configurations and recommendations."""

from __future__ import annotations

import duckdb

from tierscope.storage.rows import Row, arrow_table
from tierscope.storage.schema import DEPLOYMENTS

_COLUMNS = ", ".join(column.name for column in DEPLOYMENTS.columns)


def record_deployment(cursor: duckdb.DuckDBPyConnection, row: Row) -> bool:
    """Keep a row of `deployments` if it differs from the endpoint's latest one; True if it did."""
    namespace, endpoint = row[:2]
    latest = cursor.execute(
        f"SELECT {_COLUMNS} FROM {DEPLOYMENTS.name} WHERE namespace = ? AND endpoint = ? "
        "ORDER BY since_unix_seconds DESC, rowid DESC LIMIT 1",
        [namespace, endpoint],
    ).fetchone()
    if latest is not None and latest[3:] == row[3:]:
        return False
    cursor.register("incoming", arrow_table(DEPLOYMENTS, [row]))
    cursor.execute(f"INSERT INTO {DEPLOYMENTS.name} BY NAME FROM incoming")
    return True


def save_recommendation(cursor: duckdb.DuckDBPyConnection, row: tuple[str, str, float, str, str]) -> None:
    """Keep a row of `recommendations`; of one hour and status only the latest stays."""
    namespace, endpoint, at_unix_seconds, status, _ = row
    hour = at_unix_seconds // 3600 * 3600
    cursor.execute(
        "DELETE FROM recommendations WHERE namespace = ? AND endpoint = ? AND status = ? "
        "AND at_unix_seconds >= ? AND at_unix_seconds < ?",
        [namespace, endpoint, status, hour, hour + 3600],
    )
    cursor.execute(
        "INSERT INTO recommendations BY NAME SELECT ? AS namespace, ? AS endpoint, "
        "? AS at_unix_seconds, ? AS status, ? AS document",
        list(row),
    )
