"""Answers to a `Reader`'s questions out of DuckDB."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import msgspec

from tierscope.domain.deployment import Deployment, DeploymentSince
from tierscope.domain.events import SourceCoverage, TierSample, of_endpoint
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.lake_settings import LakeSettings
from tierscope.domain.names import Beginning
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Tier
from tierscope.domain.window import CoveredSamples, CoveredTokens, Evidence, RequestWindow, TimeSpan
from tierscope.storage.columns import SPLIT
from tierscope.storage.database import Database
from tierscope.storage.fitting import fitting
from tierscope.storage.opening import open_to_read, place_of
from tierscope.storage.schema import TABLES
from tierscope.storage.windows import read_window, span_values


class DuckDbReader:
    """A `Reader` of an open store.

    With `most_window_bytes`, a window whose requests take more is one of the end of its span, where they fit;
    its `span` says so.
    """

    def __init__(self, database: Database, most_window_bytes: int | None = None) -> None:
        self._database = database
        self._most_window_bytes = most_window_bytes

    @classmethod
    def open(cls, store: str | Path, lake: LakeSettings | None = None) -> DuckDbReader:
        """Open a store: a file that no collector writes, or a lake. Close it with `close`.

        Raises `StoreUnusable`.
        """
        return cls(open_to_read(place_of(store, lake)))

    def close(self) -> None:
        """Close the store that `open` opened."""
        self._database.close()

    def endpoints(self) -> tuple[tuple[str, str], ...]:
        """See `Reader`."""
        with self._database.reading() as cursor:
            return tuple(cursor.execute(_ENDPOINTS).fetchall())

    def history(self, namespace: str, endpoint: str) -> TimeSpan | None:
        """See `Reader`."""
        with self._database.reading() as cursor:
            row = cursor.execute(_HISTORY, [namespace, endpoint]).fetchone()
        return None if row is None or row[0] is None else TimeSpan(*row)

    def totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        """See `Reader`."""
        tokens = self._split(_TOTALS, span_values(namespace, endpoint, span))
        return CoveredTokens(tokens, self._coverage_of(namespace, endpoint, span))

    def engine_totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        """See `Reader`."""
        values = [namespace, endpoint, span.start_unix_seconds, span.end_unix_seconds]
        return CoveredTokens(
            self._split(_ENGINE_TOTALS, values), self._coverage_of(namespace, endpoint, span)
        )

    def window(self, namespace: str, endpoint: str, span: TimeSpan) -> RequestWindow:
        """See `Reader`."""
        with self._database.reading() as cursor:
            if self._most_window_bytes is not None:
                values = span_values(namespace, endpoint, span)
                span = fitting(cursor, span, values, self._most_window_bytes)
            window = read_window(cursor, namespace, endpoint, span)
        return replace(window, coverage=self._coverage_of(namespace, endpoint, span))

    def samples(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredSamples:
        """See `Reader`."""
        return CoveredSamples(
            self._samples(namespace, endpoint, span), self._coverage_of(namespace, endpoint, span)
        )

    def coverage(self, span: TimeSpan) -> tuple[SourceCoverage, ...]:
        """See `Reader`."""
        with self._database.reading() as cursor:
            rows = cursor.execute(_COVERAGE, [span.start_unix_seconds, span.end_unix_seconds]).fetchall()
        covered = (
            SourceCoverage(SourceId(SourceKind(kind), owner), *values) for kind, owner, *values in rows
        )
        return tuple(sorted(covered, key=lambda coverage: coverage.source))

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        """See `Reader`."""
        window = self.window(namespace, endpoint, span)
        return Evidence(
            window=window,
            samples=self._samples(namespace, endpoint, window.span),
            beginnings=self._beginnings(namespace, endpoint, window.span),
        )

    def _beginnings(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[Beginning, ...]:
        with self._database.reading() as cursor:
            rows = cursor.execute(_BEGINNINGS, span_values(namespace, endpoint, span)).fetchall()
        return tuple(
            Beginning(EngineId(namespace, endpoint, replica, rank), *names)
            for replica, rank, *names in reversed(rows)
        )

    def deployments(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[DeploymentSince, ...]:
        """See `Reader`."""
        with self._database.reading() as cursor:
            rows = cursor.execute(
                _DEPLOYMENTS, [namespace, endpoint, span.end_unix_seconds, span.start_unix_seconds]
            ).fetchall()
        return tuple(
            DeploymentSince(since, msgspec.json.decode(text, type=Deployment)) for since, text in rows
        )

    def latest_recommendation(self, namespace: str, endpoint: str) -> bytes | None:
        """See `Reader`."""
        with self._database.reading() as cursor:
            row = cursor.execute(_RECOMMENDATION, [namespace, endpoint]).fetchone()
        return None if row is None else str(row[0]).encode()

    def recommendation_history(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[bytes, ...]:
        """See `Reader`."""
        with self._database.reading() as cursor:
            rows = cursor.execute(
                _RECOMMENDATIONS, [namespace, endpoint, span.start_unix_seconds, span.end_unix_seconds]
            ).fetchall()
        return tuple(str(text).encode() for (text,) in rows)

    def row_counts(self) -> dict[str, int]:
        """See `Reader`."""
        with self._database.reading() as cursor:
            return {table.name: _count(cursor, table.name) for table in TABLES}

    def _samples(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[TierSample, ...]:
        with self._database.reading() as cursor:
            rows = cursor.execute(
                _SAMPLES, [span.start_unix_seconds, span.end_unix_seconds, f"{namespace}/{endpoint}/"]
            ).fetchall()
        return tuple(TierSample(Tier(tier), *values) for tier, *values in rows)

    def _coverage_of(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[SourceCoverage, ...]:
        return of_endpoint(self.coverage(span), namespace, endpoint)

    def _split(self, query: str, values: list[object] | dict[str, object]) -> TokenSplit:
        with self._database.reading() as cursor:
            row = cursor.execute(query, values).fetchone()
        return TokenSplit(*(row or (0,)))


MOST_BEGINNINGS = 20_000

_ENDPOINTS = """
SELECT namespace, endpoint FROM requests UNION SELECT namespace, endpoint FROM engine_tokens
UNION SELECT namespace, endpoint FROM deployments ORDER BY ALL
"""
_HISTORY = """
SELECT min(admitted_unix_seconds), nextafter(max(admitted_unix_seconds), 'infinity'::DOUBLE)
FROM requests WHERE namespace = ? AND endpoint = ?
"""
_SUMS = ", ".join(
    f"CAST(coalesce(sum({part}_tokens), 0) AS BIGINT)"
    for part in ("prompt", "l0", "l1", "l2", "external", "computed")
)
_SPLIT = ", ".join(column.name for column in SPLIT)
_TOTALS = f"""
SELECT {_SUMS} FROM (
  SELECT {_SPLIT} FROM requests
  WHERE hour BETWEEN $first_hour AND $last_hour AND namespace = $namespace AND endpoint = $endpoint
    AND status = 'served' AND admitted_unix_seconds >= $start AND admitted_unix_seconds < $end
  UNION ALL
  SELECT {_SPLIT} FROM hourly_requests
  WHERE hour BETWEEN $first_hour AND $last_hour AND namespace = $namespace AND endpoint = $endpoint
    AND status = 'served' AND hour * 3600.0 >= $start AND hour * 3600.0 < $end
)
"""
_ENGINE_TOTALS = f"""
SELECT {_SUMS} FROM engine_tokens
WHERE namespace = ? AND endpoint = ? AND at_unix_seconds >= ? AND at_unix_seconds < ?
"""
# arg_max skips NULLs of its first argument: of a part, the latest value that was reported.
_READ = (
    "capacity_bytes", "used_bytes", "pinned_bytes", "capacity_blocks", "used_blocks", "block_tokens",
    "pinned_blocks", "duplicate_blocks", "orphan_blocks",
)  # fmt: skip
_SAMPLES = f"""
WITH readings AS (
  FROM tier_samples
  WHERE at_unix_seconds >= ? AND at_unix_seconds < ? AND (tier <> 'l0' OR starts_with(holder, ?))
), times AS (
  SELECT min(at_unix_seconds) AS first, (max(at_unix_seconds) - min(at_unix_seconds)) / 720 AS step
  FROM readings
), parts AS (
  SELECT
    tier, holder, least(floor((at_unix_seconds - first) / nullif(step, 0)), 719) AS part,
    {", ".join(f"arg_max({value}, at_unix_seconds) AS {value}" for value in _READ)},
    max(at_unix_seconds) AS at_unix_seconds
  FROM readings, times GROUP BY tier, holder, part
)
SELECT
  tier, holder, at_unix_seconds,
  {", ".join(f"last_value({value} IGNORE NULLS) OVER before" for value in _READ)}
FROM parts WINDOW before AS (PARTITION BY tier, holder ORDER BY at_unix_seconds)
ORDER BY tier, holder, at_unix_seconds
"""
# Rows that brought a prompt's first chunk into their hour name its last block themselves: no chain is put
# together for it. The newest that are compared at all.
_BEGINNINGS = f"""
SELECT
  replica, rank, cache_server, model, block_tokens, chunk_tokens,
  new_hashes[chunk_tokens // block_tokens - common_blocks] AS block_hash, first_chunk_hash,
  salt_hash IS NULL AND adapter IS NULL AS of_tokens_alone
FROM requests
WHERE hour BETWEEN $first_hour AND $last_hour AND namespace = $namespace AND endpoint = $endpoint
  AND admitted_unix_seconds >= $start AND admitted_unix_seconds < $end
  AND first_chunk_hash IS NOT NULL AND chunk_tokens % block_tokens = 0
  AND chunk_tokens // block_tokens > common_blocks AND chunk_tokens // block_tokens <= blocks
GROUP BY ALL ORDER BY max(admitted_unix_seconds) DESC, replica, rank, block_hash, first_chunk_hash
LIMIT {MOST_BEGINNINGS}
"""
# The sequence range and `stale` are those of the source's latest incarnation.
_COVERAGE = """
WITH runs AS (
  SELECT
    kind, owner, incarnation, min(since_unix_seconds) AS since, max(at_unix_seconds) AS until,
    sum(received) AS received, sum(missing) AS missing, sum(undecodable) AS undecodable,
    sum(restarts) AS restarts, min(first_sequence) AS first_sequence, max(last_sequence) AS last_sequence,
    arg_max(stale, (at_unix_seconds, since_unix_seconds)) AS stale
  FROM coverage WHERE at_unix_seconds >= ? AND since_unix_seconds < ? GROUP BY kind, owner, incarnation
)
SELECT
  kind, owner, arg_max(incarnation, (until, since)), min(since), max(until),
  CAST(sum(received) AS BIGINT), CAST(sum(missing) AS BIGINT), CAST(sum(undecodable) AS BIGINT),
  CAST(sum(restarts) AS BIGINT), arg_max_null(first_sequence, (until, since)),
  arg_max_null(last_sequence, (until, since)), arg_max(stale, (until, since))
FROM runs GROUP BY kind, owner
"""
_DEPLOYMENTS = """
WITH known AS (
  SELECT
    since_unix_seconds, configuration,
    lead(since_unix_seconds, 1, 'infinity'::DOUBLE) OVER (ORDER BY since_unix_seconds, rowid) AS until
  FROM deployments WHERE namespace = ? AND endpoint = ?
)
SELECT since_unix_seconds, configuration FROM known
WHERE since_unix_seconds < ? AND until > ? AND configuration IS NOT NULL
ORDER BY since_unix_seconds, until
"""
_RECOMMENDATIONS = """
SELECT document FROM recommendations
WHERE namespace = ? AND endpoint = ? AND at_unix_seconds >= ? AND at_unix_seconds < ?
ORDER BY at_unix_seconds DESC
"""
_RECOMMENDATION = """
SELECT document FROM recommendations WHERE namespace = ? AND endpoint = ?
ORDER BY at_unix_seconds DESC LIMIT 1
"""


def _count(cursor: duckdb.DuckDBPyConnection, table: str) -> int:
    row = cursor.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0
