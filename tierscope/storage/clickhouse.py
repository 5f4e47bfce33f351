"""The store's Parquet files as tables and views of ClickHouse: the SQL that goes beside them.

Tables are made from the same rows as DuckDB's. Of the views those in `VIEWS` are written anew, in
ClickHouse's SQL, and say the same to the row: `tests/engines/test_clickhouse.py` holds one against the other.
Views that are not in it are not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierscope.storage.columns import Column, Table
from tierscope.storage.schema import TABLES

CLICKHOUSE_FILE = "clickhouse.sql"

TYPES = {
    "BIGINT": "Int64",
    "BIGINT[]": "Array(Int64)",
    "BOOLEAN": "Bool",
    "DATE": "Date32",
    "DOUBLE": "Float64",
    "INTEGER": "Int32",
    "UBIGINT": "UInt64",
    "UBIGINT[]": "Array(UInt64)",
    "UINTEGER": "UInt32",
    "VARCHAR": "String",
}

_TIMES = ("admitted_unix_seconds", "at_unix_seconds", "since_unix_seconds", "hour")
"""What a table is ordered by: the first of these that it has and always knows."""

_SPAN = "BETWEEN toInt32(floor({span_start:Float64} / 3600)) AND toInt32(floor({span_end:Float64} / 3600))"

_BLOCK_ACCESSES = f"""
WITH RECURSIVE segments AS (
  SELECT id, id AS part_id, blocks AS upto FROM requests
  WHERE hour {_SPAN} AND blocks > 0
    AND admitted_unix_seconds >= {{span_start:Float64}} AND admitted_unix_seconds < {{span_end:Float64}}
  UNION ALL
  SELECT segments.id, assumeNotNull(requests.parent_id), requests.common_blocks
  FROM segments JOIN requests ON requests.id = segments.part_id
  WHERE requests.common_blocks > 0 AND requests.hour {_SPAN}
)
SELECT
  whole.admitted_unix_seconds AS at_unix_seconds, whole.namespace AS namespace, whole.endpoint AS endpoint,
  whole.model AS model, whole.replica AS replica, whole.rank AS rank, whole.id AS request,
  whole.status AS status, toInt32(part.common_blocks + step - 1) AS position,
  part.new_hashes[step] AS block_hash,
  multiIf(
    (position + 1) * block_tokens <= whole.l0_tokens, 'l0',
    (position + 1) * block_tokens <= whole.l0_tokens + whole.l1_tokens, 'l1',
    (position + 1) * block_tokens <= whole.l0_tokens + whole.l1_tokens + whole.l2_tokens, 'l2',
    (position + 1) * block_tokens <= whole.prompt_tokens - whole.computed_tokens, 'external',
    'computed'
  ) AS tier
FROM segments
JOIN requests AS part ON part.id = segments.part_id
JOIN requests AS whole ON whole.id = segments.id
ARRAY JOIN range(1, toUInt32(segments.upto - part.common_blocks + 1)) AS step
WHERE part.hour {_SPAN} AND whole.hour {_SPAN}
""".replace(" * block_tokens", " * whole.block_tokens")

_BLOCK_REUSE = f"""
SELECT
  at_unix_seconds, namespace, endpoint, model, block_hash, request,
  lagInFrame(toNullable(request)) OVER uses AS previous_request, tier,
  at_unix_seconds - lagInFrame(toNullable(at_unix_seconds)) OVER uses AS interval_seconds
FROM ({_BLOCK_ACCESSES}) WHERE status = 'served'
WINDOW uses AS (
  PARTITION BY namespace, endpoint, model, block_hash ORDER BY at_unix_seconds, request
  ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
)
"""

_PARTS = (
    "ARRAY JOIN [('l0', l0), ('l1', l1), ('l2', l2), ('external', external), ('computed', computed)] AS part"
)
_SUMS = ", ".join(f"sum({tier}_tokens) AS {tier}" for tier in ("l0", "l1", "l2", "external", "computed"))

_TIER_HITS_PER_MINUTE = f"""
SELECT
  minute_unix_seconds, namespace, endpoint, model, part.1 AS tier, part.2 AS tokens, asked AS prompt_tokens,
  (part.2 - if(part.1 = 'computed', unasked_tokens, 0)) / nullIf(asked - unasked_tokens, 0) AS ratio,
  requests, unasked_tokens
FROM (
  SELECT
    floor(admitted_unix_seconds / 60) * 60 AS minute_unix_seconds, namespace, endpoint, model, {_SUMS},
    sum(prompt_tokens) AS asked, toInt64(count()) AS requests,
    sumIf(prompt_tokens, not ifNull(asks_cache, true)) AS unasked_tokens
  FROM requests WHERE status = 'served' GROUP BY minute_unix_seconds, namespace, endpoint, model
) {_PARTS}
"""

_TIER_HITS_PER_HOUR = f"""
SELECT
  hour * 3600.0 AS hour_unix_seconds, namespace, endpoint, model, part.1 AS tier, part.2 AS tokens,
  asked AS prompt_tokens, part.2 / asked AS ratio, told AS requests
FROM (
  SELECT hour, namespace, endpoint, model, {_SUMS}, sum(prompt_tokens) AS asked, sum(admissions) AS told
  FROM (
    SELECT *, toInt64(1) AS admissions FROM (
      SELECT hour, namespace, endpoint, model, status, prompt_tokens, l0_tokens, l1_tokens, l2_tokens,
        external_tokens, computed_tokens FROM requests
    )
    UNION ALL
    SELECT hour, namespace, endpoint, model, status, prompt_tokens, l0_tokens, l1_tokens, l2_tokens,
      external_tokens, computed_tokens, requests AS admissions FROM hourly_requests
  ) WHERE status = 'served' GROUP BY hour, namespace, endpoint, model
) {_PARTS}
"""

VIEWS = {
    "block_accesses": _BLOCK_ACCESSES,
    "block_reuse": _BLOCK_REUSE,
    "tier_hits_per_minute": _TIER_HITS_PER_MINUTE,
    "tier_hits_per_hour": _TIER_HITS_PER_HOUR,
}
"""The first two take a span: `block_reuse(span_start = 1700000000, span_end = 1700003600)`."""


def clickhouse_schema() -> str:
    """The statements that make tables of the Parquet files beside them, and the views over these."""
    return ";\n\n".join(_statements()) + ";\n"


def _statements() -> Iterator[str]:
    for table in TABLES:
        yield _table(table)
        yield f"INSERT INTO {table.name} FROM INFILE '{table.name}.parquet' FORMAT Parquet"
    for name, query in VIEWS.items():
        yield f"CREATE VIEW {name} AS {query.strip()}"


def _table(table: Table) -> str:
    names = [column.name for column in table.columns if column.null_means is None]
    order = next((name for name in _TIMES if name in names), "tuple()")
    lines = ",\n".join(f"  {column.name} {_type(column)}" for column in table.columns)
    return f"CREATE TABLE {table.name} (\n{lines}\n) ENGINE = MergeTree ORDER BY {order}"


def _type(column: Column) -> str:
    """An array is empty where it is not known: ClickHouse has none that is NULL."""
    held = TYPES[column.sql_type]
    return held if column.null_means is None or held.startswith("Array") else f"Nullable({held})"
