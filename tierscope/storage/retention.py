"""How the past shrinks: rows become sums of an hour, and sums are deleted, inside a caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from tierscope.storage.columns import SPLIT, Column, Table
from tierscope.storage.hourly import HOURLY_BLOCKS, HOURLY_REQUESTS
from tierscope.storage.pool_tables import POOL_FILES, POOL_TRAFFIC
from tierscope.storage.schema import (
    BLOCK_EVENTS,
    COVERAGE,
    ENGINE_TOKENS,
    RECOMMENDATIONS,
    REQUESTS,
    TIER_ACTIVITY,
    TIER_SAMPLES,
    TIER_TRANSFERS,
)


@dataclass(frozen=True, slots=True)
class Horizons:
    """The first hours that are still whole (`hourly`) and still there at all (`gone`); None: all are."""

    hourly: int | None = None
    gone: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How much of the past is kept: by age, and by what the store may use on disk (None: no bound)."""

    raw_seconds: float
    hourly_seconds: float
    most_bytes: float | None = None


def horizons(cursor: duckdb.DuckDBPyConnection) -> Horizons:
    """How far the past has been reduced."""
    found = cursor.execute("SELECT stage, max(before_hour) FROM retention GROUP BY stage").fetchall()
    hours: Mapping[str, int] = dict(found)
    return Horizons(hours.get("hourly"), hours.get("gone"))


def roll_up(cursor: duckdb.DuckDBPyConnection, before_hour: int, at_unix_seconds: float) -> Counter[str]:
    """Reduce every hour before `before_hour` to sums; return the rows deleted, by table.

    Hours that are sums already stay as they are; what an append brings of them is left out.
    """
    since = horizons(cursor).hourly
    values = {"since": -(2**31) if since is None else since, "before": before_hour}
    last_hour = _scalar(cursor, _LAST_HOUR, values)
    if last_hour is None:
        return Counter()
    values["before"] = before_hour = last_hour + 1
    deleted: Counter[str] = Counter()
    for statement in _SUM_UP:
        cursor.execute(statement, {"before": before_hour})
    for table, statement in _SUMMED_UP.items():
        deleted[table] += _count(cursor, statement, {"before": before_hour})
    for table, time, query in _THINNED:
        hours = f"{time} >= $since * 3600.0 AND {time} < $before * 3600.0"
        cursor.execute(f"CREATE TEMP TABLE thinned AS {query.format(hours=hours)}", values)
        deleted[table] += _count(cursor, f"DELETE FROM {table} WHERE {hours}", values)
        deleted[table] -= _count(cursor, f"INSERT INTO {table} BY NAME FROM temp.thinned", {})
        cursor.execute("DROP TABLE temp.thinned")
    _move(cursor, "hourly", before_hour, at_unix_seconds)
    return deleted


def delete_sums(cursor: duckdb.DuckDBPyConnection, before_hour: int, at_unix_seconds: float) -> Counter[str]:
    """Delete everything of the hours before `before_hour`, which must be sums; return rows by table."""
    deleted: Counter[str] = Counter()
    for table, condition in _DELETED.items():
        deleted[table] += _count(cursor, f"DELETE FROM {table} WHERE {condition}", {"before": before_hour})
    if deleted.total():
        _move(cursor, "gone", before_hour, at_unix_seconds)
    return deleted


def oldest_hours(cursor: duckdb.DuckDBPyConnection) -> tuple[int | None, int | None]:
    """The first hour that has rows, and the first that has sums; None where there is none."""
    raw = f"SELECT min(hour) FROM ({_RAW_HOURS})"
    sums = " UNION ALL ".join(
        f"SELECT min(hour) AS hour FROM {table.name}" for table in (HOURLY_REQUESTS, HOURLY_BLOCKS)
    )
    return _scalar(cursor, raw), _scalar(cursor, f"SELECT min(hour) FROM ({sums})")


def _move(cursor: duckdb.DuckDBPyConnection, stage: str, hour: int, at_unix_seconds: float) -> None:
    cursor.execute("DELETE FROM retention WHERE stage = ?", [stage])
    cursor.execute("INSERT INTO retention VALUES (?, ?, ?)", [stage, hour, at_unix_seconds])


def _scalar(
    cursor: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, int] | None = None
) -> int | None:
    row = cursor.execute(query, dict(values or {})).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _count(cursor: duckdb.DuckDBPyConnection, statement: str, values: Mapping[str, int]) -> int:
    row = cursor.execute(statement, dict(values)).fetchone()
    return int(row[0]) if row else 0


_TIMES = {
    BLOCK_EVENTS.name: "at_unix_seconds",
    TIER_SAMPLES.name: "at_unix_seconds",
    TIER_ACTIVITY.name: "at_unix_seconds",
    TIER_TRANSFERS.name: "at_unix_seconds",
    ENGINE_TOKENS.name: "at_unix_seconds",
    POOL_TRAFFIC.name: "at_unix_seconds",
    POOL_FILES.name: "at_unix_seconds",
    COVERAGE.name: "since_unix_seconds",
}
"""Which time says to which hour a row belongs; `requests` has its hour."""

_RAW_HOURS = (
    f"SELECT min(hour) AS hour FROM {REQUESTS.name} UNION ALL "
    f"SELECT CAST(floor(min(at_unix_seconds) / 3600) AS INTEGER) FROM {BLOCK_EVENTS.name}"
)
_LAST_HOUR = "SELECT max(hour) FROM ({})".format(
    " UNION ALL ".join(
        [
            f"SELECT max(hour) AS hour FROM {REQUESTS.name} WHERE hour >= $since AND hour < $before",
            *(
                f"SELECT CAST(floor(max({time}) / 3600) AS INTEGER) FROM {table} "
                f"WHERE {time} >= $since * 3600.0 AND {time} < $before * 3600.0"
                for table, time in _TIMES.items()
            ),
        ]
    )
)
_SPLIT_SUMS = ", ".join(f"CAST(sum({column.name}) AS BIGINT) AS {column.name}" for column in SPLIT)

_SUM_UP = (
    f"""
INSERT INTO {HOURLY_REQUESTS.name} BY NAME SELECT
  hour, namespace, endpoint, replica, rank, model, status, count(*) AS requests, {_SPLIT_SUMS},
  count(ttft_seconds) AS ttft_requests, avg(ttft_seconds) AS ttft_mean_seconds,
  quantile_cont(ttft_seconds, 0.5) AS ttft_p50_seconds, quantile_cont(ttft_seconds, 0.9) AS ttft_p90_seconds,
  quantile_cont(ttft_seconds, 0.99) AS ttft_p99_seconds
FROM {REQUESTS.name} WHERE hour < $before GROUP BY ALL
""",
    f"""
INSERT INTO {HOURLY_BLOCKS.name} BY NAME SELECT
  CAST(floor(at_unix_seconds / 3600) AS INTEGER) AS hour, tier, holder, action, reason,
  count(*) AS events, CAST(sum(blocks) AS BIGINT) AS blocks
FROM {BLOCK_EVENTS.name} WHERE at_unix_seconds < $before * 3600.0 GROUP BY ALL
""",
)
_SUMMED_UP = {
    REQUESTS.name: f"DELETE FROM {REQUESTS.name} WHERE hour < $before",
    BLOCK_EVENTS.name: f"DELETE FROM {BLOCK_EVENTS.name} WHERE at_unix_seconds < $before * 3600.0",
}
_JOINED = {
    "since_unix_seconds": "min({0})",
    "started_unix_seconds": "CAST(NULL AS DOUBLE)",  # tasks overlap: their sum has no length
    "at_unix_seconds": "max({0})",
    "first_sequence": "min({0})",
    "last_sequence": "max({0})",
    "stale": "arg_max({0}, at_unix_seconds)",
}
"""How two intervals become one; whatever else an interval counts is added up."""


def _thinned(table: Table, keys: tuple[str, ...], *, readings: bool) -> tuple[str, str, str]:
    """(table, time, query): one row an hour and key, the query's hours still to be filled in."""
    time = _TIMES[table.name]

    def joined(column: Column) -> str:
        total = "sum({0})" if column.sql_type == "DOUBLE" else "CAST(sum({0}) AS BIGINT)"
        adding_up = "arg_max({0}, at_unix_seconds)" if readings else total
        return f"{_JOINED.get(column.name, adding_up).format(column.name)} AS {column.name}"

    values = ", ".join(joined(column) for column in table.columns if column.name not in keys)
    names = ", ".join(keys)
    query = (
        f"SELECT {names}, {values} FROM {table.name} WHERE {{hours}} "
        f"GROUP BY {names}, floor({table.name}.{time} / 3600)"
    )
    return table.name, time, query


_LAST_SCAN = f"""
FROM {POOL_FILES.name} WHERE {{hours}} QUALIFY at_unix_seconds =
  max(at_unix_seconds) OVER (PARTITION BY feed, holder, floor({POOL_FILES.name}.at_unix_seconds / 3600))
"""
"""The rows of a scan belong together: of each hour the last one is kept whole."""

_THINNED = (
    _thinned(TIER_SAMPLES, ("feed", "tier", "holder"), readings=True),
    _thinned(TIER_ACTIVITY, ("feed", "tier", "holder"), readings=False),
    _thinned(TIER_TRANSFERS, ("feed", "tier", "holder", "adapter", "action", "reason"), readings=False),
    _thinned(
        ENGINE_TOKENS,
        ("feed", "namespace", "endpoint", "replica", "rank", "model"),
        readings=False,
    ),
    _thinned(POOL_TRAFFIC, ("feed", "holder", "seen_by", "process"), readings=False),
    (POOL_FILES.name, "at_unix_seconds", _LAST_SCAN),
    _thinned(COVERAGE, ("feed", "kind", "owner", "incarnation"), readings=False),
)
_PLAINLY_DELETED = (
    TIER_SAMPLES,
    TIER_ACTIVITY,
    TIER_TRANSFERS,
    ENGINE_TOKENS,
    POOL_TRAFFIC,
    POOL_FILES,
    COVERAGE,
    RECOMMENDATIONS,
)
_DELETED = {
    HOURLY_REQUESTS.name: "hour < $before",
    HOURLY_BLOCKS.name: "hour < $before",
    **{table.name: "at_unix_seconds < $before * 3600.0" for table in _PLAINLY_DELETED},
}
