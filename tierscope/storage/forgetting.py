"""Deleting everything that belongs to an endpoint, a model, a tenant or a session, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb

from tierscope.domain.selection import Selection


def forget(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> dict[str, int]:
    """Delete the selection's rows inside the caller's transaction; return how many, by table.

    Chains of other requests that begin with a deleted row's are written whole first. Hashes of blocks that
    no request is left to name are taken out of `block_events`; what these rows count stays. Hourly sums name
    neither tenants nor sessions, so those of one are left. What cache servers tell of themselves is nobody's.
    """
    deleted: Counter[str] = Counter()
    values = selection.parts()
    for statement in _CHAINS_MADE_WHOLE:
        cursor.execute(statement.format(chosen=_where(selection)), values)
        values = {}
    deleted["requests"] = _count(cursor, "DELETE FROM requests WHERE id IN (SELECT id FROM temp.forgotten)")
    for statement in _HASHES_TAKEN_OUT:
        cursor.execute(statement)
    for table, condition in _others(selection):
        given = {name: value for name, value in selection.parts().items() if f"${name}" in condition}
        deleted[table] += _count(cursor, f"DELETE FROM {table} WHERE {condition}", given)
    for table in ("forgotten", "whole", "gone"):
        cursor.execute(f"DROP TABLE temp.{table}")
    return dict(deleted)


_BY_HOLDER = ("block_events", "hourly_blocks", "tier_samples", "tier_activity", "tier_transfers")


def _where(selection: Selection) -> str:
    return " AND ".join(f"{name} = ${name}" for name in selection.parts())


def _others(selection: Selection) -> Iterator[tuple[str, str]]:
    """Tables beside `requests` that can name the selection, each with the condition that does."""
    parts = selection.parts().keys()
    if parts & {"salt_hash", "session_hash"}:
        return
    for table in ("hourly_requests", "engine_tokens", "deployments"):
        yield table, _where(selection)
    prefix = "$namespace || '/'" + (" || $endpoint || '/'" if "endpoint" in parts else "")
    conditions = [_is_engine("owner")]
    conditions += [f"starts_with(owner, {prefix})"] if "namespace" in parts else []
    conditions += ["model = $model"] if "model" in parts else []
    yield "counter_states", " AND ".join(conditions)
    if "model" in parts:
        return
    yield "recommendations", _where(selection)
    for table in _BY_HOLDER:  # an engine may hold any tier
        yield table, f"{_is_engine('holder')} AND starts_with(holder, {prefix})"
    yield "coverage", f"kind IN ('vllm_metrics', 'vllm_events', 'vllm_hook') AND starts_with(owner, {prefix})"


def _is_engine(column: str) -> str:
    """Names of engines have four parts; those of cache servers, which endpoints may share, have fewer."""
    return f"len({column}) - len(replace({column}, '/', '')) = 3"


def _count(
    cursor: duckdb.DuckDBPyConnection, statement: str, values: dict[str, str | int] | None = None
) -> int:
    row = cursor.execute(statement, values or {}).fetchone()
    return int(row[0]) if row else 0


_CHAINS_MADE_WHOLE = (
    "CREATE TEMP TABLE forgotten AS SELECT id, hour, new_hashes FROM requests WHERE {chosen}",
    """
CREATE TEMP TABLE whole AS
WITH RECURSIVE hours AS (
  FROM requests WHERE hour IN (SELECT hour FROM temp.forgotten)
), segments AS (
  SELECT id, id AS part_id, blocks AS upto FROM hours
  WHERE parent_id IN (SELECT id FROM temp.forgotten) AND id NOT IN (SELECT id FROM temp.forgotten)
  UNION ALL
  SELECT segments.id, hours.parent_id, hours.common_blocks
  FROM segments JOIN hours ON hours.id = segments.part_id WHERE hours.common_blocks > 0
), places AS (
  SELECT segments.id, part.common_blocks + step.i AS place, part.new_hashes[step.i] AS block_hash
  FROM segments JOIN hours AS part ON part.id = segments.part_id,
    LATERAL (SELECT unnest(generate_series(1, segments.upto - part.common_blocks)) AS i) AS step
)
SELECT id, list(block_hash ORDER BY place) AS hashes FROM places GROUP BY id
""",
    """
UPDATE requests SET parent_id = NULL, common_blocks = 0, new_hashes = whole.hashes
FROM temp.whole AS whole WHERE requests.id = whole.id
""",
)
_HASHES_TAKEN_OUT = (
    """
CREATE TEMP TABLE gone AS
SELECT DISTINCT block_hash FROM (SELECT unnest(new_hashes) AS block_hash FROM temp.forgotten)
ANTI JOIN (SELECT unnest(new_hashes) AS block_hash FROM requests) AS kept USING (block_hash)
""",
    """
UPDATE block_events SET block_hashes = kept.hashes
FROM (
  SELECT row, coalesce(list(block_hash ORDER BY place) FILTER (NOT is_gone), []) AS hashes
  FROM (
    SELECT blocks.row, blocks.place, blocks.block_hash, gone.block_hash IS NOT NULL AS is_gone
    FROM (
      SELECT
        rowid AS row, unnest(block_hashes) AS block_hash, generate_subscripts(block_hashes, 1) AS place
      FROM block_events
    ) AS blocks LEFT JOIN temp.gone AS gone ON gone.block_hash = blocks.block_hash
  ) GROUP BY row HAVING bool_or(is_gone)
) AS kept WHERE block_events.rowid = kept.row
""",
    """
UPDATE block_events SET parent_hash = NULL WHERE parent_hash IN (SELECT block_hash FROM temp.gone)
""",
)
