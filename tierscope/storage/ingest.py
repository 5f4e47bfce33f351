"""Writes what an append has planned: rows through Arrow, feed coverage and positions beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tierscope.domain.batch import FeedBatch
from tierscope.domain.events import (
    BlockEvent,
    EngineTokens,
    LedgerEntry,
    SourceCoverage,
    TierActivity,
    TierSample,
    TierTransfer,
)
from tierscope.domain.pool import PoolFiles, PoolTraffic
from tierscope.domain.requests import RequestRecord
from tierscope.storage import rows
from tierscope.storage.beginnings import end_lives_before, is_beginning
from tierscope.storage.bridging import COUNTED, CounterBridge
from tierscope.storage.chains import ChainEncoder, Delta
from tierscope.storage.columns import Table
from tierscope.storage.event_columns import block_events_table
from tierscope.storage.intake import FeedState, Plan, Run, by_minute
from tierscope.storage.pool_tables import POOL_FILES, POOL_TRAFFIC
from tierscope.storage.rows import UNSTORABLE, Row, arrow_table
from tierscope.storage.schema import (
    BLOCK_EVENTS,
    COVERAGE,
    ENGINE_TOKENS,
    FEED_POSITIONS,
    REQUESTS,
    TIER_ACTIVITY,
    TIER_SAMPLES,
    TIER_TRANSFERS,
)

Found = Sequence[tuple[int, LedgerEntry]]
"""Ledger entries, each with the number of the feed that brought it."""


def _by_row(table: Table, row: Callable[..., Row]) -> Callable[[Found], pa.Table]:
    return lambda found: arrow_table(table, [row(entry, feed) for feed, entry in found])


def _whole_request_row(record: RequestRecord, feed: int) -> Row:
    return rows.request_row(record, feed, rows.request_id(record), Delta(None, 0, record.block_hashes))


_KINDS: Mapping[type, tuple[Table, Callable[[Any], pa.Table]]] = {
    RequestRecord: (REQUESTS, _by_row(REQUESTS, _whole_request_row)),
    BlockEvent: (BLOCK_EVENTS, block_events_table),
    TierSample: (TIER_SAMPLES, _by_row(TIER_SAMPLES, rows.tier_sample_row)),
    TierActivity: (TIER_ACTIVITY, _by_row(TIER_ACTIVITY, rows.tier_activity_row)),
    TierTransfer: (TIER_TRANSFERS, _by_row(TIER_TRANSFERS, rows.tier_transfer_row)),
    EngineTokens: (ENGINE_TOKENS, _by_row(ENGINE_TOKENS, rows.engine_tokens_row)),
    PoolTraffic: (POOL_TRAFFIC, _by_row(POOL_TRAFFIC, rows.pool_traffic_row)),
    PoolFiles: (POOL_FILES, _by_row(POOL_FILES, rows.pool_files_row)),
    SourceCoverage: (COVERAGE, _by_row(COVERAGE, rows.coverage_row)),
}

_NEW_EVENTS = f"""
INSERT INTO {BLOCK_EVENTS.name} BY NAME FROM incoming ANTI JOIN (
  SELECT id, feed FROM {BLOCK_EVENTS.name} WHERE at_unix_seconds BETWEEN ? AND ?
) AS known ON known.id = incoming.id AND known.feed <> incoming.feed
"""
"""An exporter that restarts reads its sources from their start: what an earlier run told is not new."""

_WHOLE_COVERAGE = f"""
MERGE INTO {COVERAGE.name} AS stored USING incoming
ON stored.since_unix_seconds >= ? AND stored.feed = incoming.feed AND stored.kind = incoming.kind
  AND stored.owner = incoming.owner AND stored.incarnation = incoming.incarnation
  AND floor(stored.since_unix_seconds / 60) = floor(incoming.since_unix_seconds / 60)
  AND stored.missing = 0 AND stored.undecodable = 0
WHEN MATCHED THEN UPDATE SET
  received = stored.received + incoming.received,
  restarts = stored.restarts + incoming.restarts,
  since_unix_seconds = least(stored.since_unix_seconds, incoming.since_unix_seconds),
  at_unix_seconds = greatest(stored.at_unix_seconds, incoming.at_unix_seconds),
  first_sequence = least(stored.first_sequence, incoming.first_sequence),
  last_sequence = greatest(stored.last_sequence, incoming.last_sequence),
  stale = incoming.stale
WHEN NOT MATCHED THEN INSERT BY NAME
"""
"""The first bound lets DuckDB leave out all of the table but its end."""

_POSITIONS = f"""
MERGE INTO {FEED_POSITIONS.name} AS stored USING incoming ON stored.feed = incoming.feed
WHEN MATCHED THEN UPDATE SET sequence = incoming.sequence, at_unix_seconds = incoming.at_unix_seconds
WHEN NOT MATCHED THEN INSERT BY NAME
"""


@dataclass(slots=True)
class Appended:
    """What an append did: rows by table, batches that were there already, entries it had to refuse.

    `refused` counts them; `first_refusal` says which the first one was and why. `late` are admissions and
    block events of hours that are sums already.
    """

    rows: Counter[str] = field(default_factory=Counter)
    repeated_batches: int = 0
    late: int = 0
    refused: int = 0
    first_refusal: str | None = None


def write(
    cursor: duckdb.DuckDBPyConnection,
    plan: Plan,
    encoder: ChainEncoder,
    bridge: CounterBridge,
    first_hour: int | None = None,
    *,
    joins_coverage: bool = True,
) -> Appended:
    """Write a plan inside the caller's transaction. If that is rolled back, encoder and bridge must forget.

    Hours before `first_hour` are sums already: what is told of them once more would count twice.
    `joins_coverage` False leaves complete intervals of a minute rows of their own, for a store in which
    changing rows of old files is dear; they mean the same.
    """

    def measured(batch: FeedBatch, entry: LedgerEntry) -> LedgerEntry | None:
        return bridge.measured(cursor, batch.position.exporter, entry)

    told: Found = [
        (feed, added)
        for feed, batch in plan.batches
        for entry in batch.entries
        if (added := measured(batch, entry) if isinstance(entry, COUNTED) else entry) is not None
    ]
    begun = [one for one in told if is_beginning(one[1])]
    found = told if first_hour is None else [one for one in told if not _is_late(one[1], first_hour)]
    if begun:
        found = [one for one in found if not is_beginning(one[1])]
    appended = Appended(repeated_batches=plan.repeated_batches, late=len(told) - len(found))
    try:
        _write_entries(cursor, found, encoder, appended.rows)
    except (KeyError, *UNSTORABLE):
        encoder.forget()
        appended.rows.clear()
        found = _storable(found, appended)
        _write_entries(cursor, found, encoder, appended.rows)
    sources = ((feed, entry) for feed, entry in found if isinstance(entry, SourceCoverage))
    _write_coverage(cursor, [*sources, *plan.coverage], appended.rows, joins=joins_coverage)
    bridge.keep(cursor)
    if ended := end_lives_before(cursor, begun):
        appended.rows[BLOCK_EVENTS.name] += ended
    _write_positions(cursor, plan.states)
    return appended


def stored_states(cursor: duckdb.DuckDBPyConnection) -> dict[Run, FeedState]:
    """How far every run of every exporter is stored."""
    stored = cursor.execute(
        f"SELECT exporter, incarnation, feed, sequence, at_unix_seconds FROM {FEED_POSITIONS.name}"
    ).fetchall()
    return {(exporter, incarnation): FeedState(*state) for exporter, incarnation, *state in stored}


def _is_late(entry: LedgerEntry, first_hour: int) -> bool:
    if isinstance(entry, RequestRecord):
        return entry.admitted_unix_seconds < first_hour * 3600
    return isinstance(entry, BlockEvent) and entry.at_unix_seconds < first_hour * 3600


def _write_entries(
    cursor: duckdb.DuckDBPyConnection, found: Found, encoder: ChainEncoder, counts: Counter[str]
) -> None:
    # All rows are made before the first is inserted: what cannot be stored shows up while nothing is.
    by_kind: dict[type, list[tuple[int, LedgerEntry]]] = {}
    admissions: list[tuple[int, RequestRecord]] = []
    for feed, entry in found:
        if isinstance(entry, RequestRecord):
            admissions.append((feed, entry))
        else:
            by_kind.setdefault(type(entry), []).append((feed, entry))
    requests = _request_rows(cursor, admissions, encoder)
    tables = [(REQUESTS, arrow_table(REQUESTS, requests))] if requests else []
    tables += [(_KINDS[kind][0], _KINDS[kind][1](of_kind)) for kind, of_kind in by_kind.items()]
    for table, incoming in tables:
        if table is COVERAGE:  # joined with that of the feeds, later
            continue
        if table is BLOCK_EVENTS:
            times = incoming.column("at_unix_seconds").to_numpy()
            statement, values = _NEW_EVENTS, [float(times.min()), float(times.max())]
        else:
            statement, values = f"INSERT INTO {table.name} BY NAME FROM incoming", []
        counts[table.name] += _execute(cursor, incoming, statement, values)


def _request_rows(
    cursor: duckdb.DuckDBPyConnection, found: Iterable[tuple[int, RequestRecord]], encoder: ChainEncoder
) -> list[Row]:
    """Rows of the admissions that the store does not have, in delta form."""
    named: dict[int, tuple[int, RequestRecord]] = {}
    for feed, record in found:
        named.setdefault(rows.request_id(record), (feed, record))
    known = _known_requests(cursor, named)
    return [
        rows.request_row(
            record, feed, identity, encoder.encode(rows.partition_of(record), identity, record.block_hashes)
        )
        for identity, (feed, record) in named.items()
        if identity not in known
    ]


def _known_requests(
    cursor: duckdb.DuckDBPyConnection, named: Mapping[int, tuple[int, RequestRecord]]
) -> set[int]:
    if not named:
        return set()
    hours = [rows.partition_of(record).hour for _, record in named.values()]
    incoming = arrow_table(_IDS, [(identity,) for identity in named])
    cursor.register("incoming", incoming)
    known = cursor.execute(
        f"SELECT id FROM {REQUESTS.name} SEMI JOIN incoming USING (id) WHERE hour BETWEEN ? AND ?",
        [min(hours), max(hours)],
    ).fetchall()
    cursor.unregister("incoming")
    return {identity for (identity,) in known}


_IDS = Table("incoming", "Row ids to look up.", REQUESTS.columns[:1])


def _storable(found: Found, appended: Appended) -> Found:
    """The entries that fit their tables; the others are counted and the first one is named."""
    kept = []
    for feed, entry in found:
        try:
            _, as_table = _KINDS[type(entry)]
            as_table([(feed, entry)])
        except (KeyError, *UNSTORABLE) as error:
            appended.refused += 1
            appended.first_refusal = appended.first_refusal or f"{_name(entry)}: {error}"
        else:
            kept.append((feed, entry))
    return kept


def _name(entry: LedgerEntry) -> str:
    owner = getattr(entry, "request_id", None) or getattr(entry, "holder", None) or ""
    return f"{type(entry).__name__} {owner}".strip()


def _write_coverage(
    cursor: duckdb.DuckDBPyConnection,
    found: Iterable[tuple[int, SourceCoverage]],
    counts: Counter[str],
    *,
    joins: bool,
) -> None:
    whole, broken = by_minute(found)
    if not joins:
        whole, broken = [], [*whole, *broken]
    if whole:
        made = [rows.coverage_row(interval, feed) for feed, interval in whole]
        first = min(interval.since_unix_seconds for _, interval in whole) // 60 * 60
        counts[COVERAGE.name] += _execute(cursor, arrow_table(COVERAGE, made), _WHOLE_COVERAGE, [first])
    if broken:
        made = [rows.coverage_row(interval, feed) for feed, interval in broken]
        statement = f"INSERT INTO {COVERAGE.name} BY NAME FROM incoming"
        counts[COVERAGE.name] += _execute(cursor, arrow_table(COVERAGE, made), statement)


def _write_positions(cursor: duckdb.DuckDBPyConnection, states: Mapping[Run, FeedState]) -> None:
    positions = [_position_row(run, state) for run, state in states.items()]
    _execute(cursor, arrow_table(FEED_POSITIONS, positions), _POSITIONS)


def _position_row(run: Run, state: FeedState) -> Row:
    exporter, incarnation = run
    return state.feed, exporter, incarnation, state.sequence, state.at_unix_seconds


def _execute(
    cursor: duckdb.DuckDBPyConnection, incoming: object, statement: str, values: Sequence[float] = ()
) -> int:
    """Run a statement over the Arrow table `incoming`; return how many rows it wrote."""
    cursor.register("incoming", incoming)
    written = cursor.execute(statement, list(values)).fetchone()
    cursor.unregister("incoming")
    return int(written[0]) if written else 0
