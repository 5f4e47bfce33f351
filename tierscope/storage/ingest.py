"""Writes what an append has planned: rows through Arrow, feed coverage and positions beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

import duckdb
import pyarrow as pa

from tierscope.domain.errors import BadInput
from tierscope.domain.events import (
    BlockEvent,
    EngineTokens,
    EvictionReason,
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

Found = Sequence[tuple[int, Sequence[LedgerEntry]]]
"""Neighbours of one kind, in the order they were told, with the number of the feed that brought them.

There are more block events than there is time to look at each on its own: what depends on the kind alone
is asked once for all neighbours. None of them is empty.
"""

AsTable = Callable[[Sequence[Any], Sequence[int]], pa.Table]
"""Makes rows of entries of one kind, each with its feed's number."""

_RAW_TIMES: Mapping[type, Callable[[Any], float]] = {
    RequestRecord: attrgetter("admitted_unix_seconds"),
    BlockEvent: attrgetter("at_unix_seconds"),
}
"""Of what becomes sums: the time that says of which hour."""


def _by_row(table: Table, row: Callable[..., Row]) -> AsTable:
    return lambda entries, feeds: arrow_table(table, list(map(row, entries, feeds)))


def _whole_request_row(record: RequestRecord, feed: int) -> Row:
    return rows.request_row(record, feed, rows.request_id(record), Delta(None, 0, record.block_hashes))


_KINDS: Mapping[type, tuple[Table, AsTable]] = {
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
  FROM {BLOCK_EVENTS.name} WHERE at_unix_seconds BETWEEN ? AND ?
) AS known ON known.feed <> incoming.feed AND known.tier = incoming.tier AND known.holder = incoming.holder
  AND known.at_unix_seconds = incoming.at_unix_seconds
  AND known.sequence IS NOT DISTINCT FROM incoming.sequence
  AND CASE WHEN known.sequence IS NULL THEN known.id ELSE known.ordinal END
    = CASE WHEN incoming.sequence IS NULL THEN incoming.id ELSE incoming.ordinal END
"""
"""An exporter that restarts reads its sources from their start: what an earlier run told is not new.

An event is known by its place in its holder's stream, which rows of every release have, and by its id only
where no message told it: other ids have been made in more than one way.
"""

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

    def refuse(self, entry: LedgerEntry, error: Exception) -> None:
        """Count an entry that cannot be stored; the first one is named."""
        self.refused += 1
        self.first_refusal = self.first_refusal or f"{_name(entry)}: {error}"


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
    appended = Appended(repeated_batches=plan.repeated_batches)
    found, begun = _sorted_out(cursor, plan, bridge, first_hour, appended)
    by_kind = _by_kind(found)
    try:
        _write_entries(cursor, by_kind, encoder, appended.rows)
    except (KeyError, *UNSTORABLE):
        encoder.forget()
        appended.rows.clear()
        by_kind = _by_kind(_storable(found, appended))
        _write_entries(cursor, by_kind, encoder, appended.rows)
    sources, feeds = by_kind.get(SourceCoverage, ([], []))
    _write_coverage(
        cursor, [*zip(feeds, sources, strict=True), *plan.coverage], appended.rows, joins=joins_coverage
    )
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


def _sorted_out(
    cursor: duckdb.DuckDBPyConnection,
    plan: Plan,
    bridge: CounterBridge,
    first_hour: int | None,
    appended: Appended,
) -> tuple[Found, Sequence[tuple[int, BlockEvent]]]:
    """What there is to write, and which holders began, by feed; counts what came late or is refused."""
    found: list[tuple[int, Sequence[LedgerEntry]]] = []
    begun: list[tuple[int, BlockEvent]] = []
    for feed, batch in plan.batches:
        for kind, neighbours in groupby(batch.entries, type):
            entries = list(neighbours)
            if kind in COUNTED:
                entries = _measured(cursor, batch.position.exporter, entries, bridge, appended)
            elif kind is BlockEvent:
                entries, beginnings = _without_beginnings(cast("list[BlockEvent]", entries))
                begun += [(feed, event) for event in beginnings]
            if first_hour is not None and kind in _RAW_TIMES:
                at, first_second = _RAW_TIMES[kind], first_hour * 3600
                told, entries = entries, [entry for entry in entries if not at(entry) < first_second]
                appended.late += len(told) - len(entries)
            if entries:
                found.append((feed, entries))
    return found, begun


def _measured(
    cursor: duckdb.DuckDBPyConnection,
    exporter: str,
    entries: Iterable[LedgerEntry],
    bridge: CounterBridge,
    appended: Appended,
) -> list[LedgerEntry]:
    """What entries of counters add to the store; one that cannot be measured is refused, the others stay."""
    found = []
    for entry in entries:
        try:
            measured = bridge.measured(cursor, exporter, entry)
        except BadInput as error:
            appended.refuse(entry, error)
        else:
            if measured is not None:
                found.append(measured)
    return found


def _without_beginnings(events: Sequence[BlockEvent]) -> tuple[list[LedgerEntry], list[BlockEvent]]:
    restarts = [event for event in events if event.reason is EvictionReason.RESTART]
    if not restarts:  # almost always
        return list(events), restarts
    return [event for event in events if not is_beginning(event)], list(filter(is_beginning, restarts))


def _by_kind(found: Found) -> Mapping[type, tuple[Sequence[Any], Sequence[int]]]:
    """The entries of each kind, and the feed of each."""
    by_kind: dict[type, tuple[list[LedgerEntry], list[int]]] = {}
    for feed, neighbours in found:
        entries, feeds = by_kind.setdefault(type(neighbours[0]), ([], []))
        entries += neighbours
        feeds += [feed] * len(neighbours)
    return by_kind


def _write_entries(
    cursor: duckdb.DuckDBPyConnection,
    by_kind: Mapping[type, tuple[Sequence[Any], Sequence[int]]],
    encoder: ChainEncoder,
    counts: Counter[str],
) -> None:
    # All rows are made before the first is inserted: what cannot be stored shows up while nothing is.
    requests = _request_rows(cursor, *by_kind.get(RequestRecord, ([], [])), encoder)
    tables = [(REQUESTS, arrow_table(REQUESTS, requests))] if requests else []
    for kind, (entries, feeds) in by_kind.items():
        if kind is not RequestRecord:
            table, as_table = _KINDS[kind]
            tables.append((table, as_table(entries, feeds)))
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
    cursor: duckdb.DuckDBPyConnection,
    records: Sequence[RequestRecord],
    feeds: Sequence[int],
    encoder: ChainEncoder,
) -> list[Row]:
    """Rows of the admissions that the store does not have, in delta form."""
    named: dict[int, tuple[int, RequestRecord]] = {}
    for record, feed in zip(records, feeds, strict=True):
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
    kept: list[tuple[int, Sequence[LedgerEntry]]] = []
    for feed, neighbours in found:
        for entry in neighbours:
            try:
                _, as_table = _KINDS[type(entry)]
                as_table([entry], [feed])
            except (KeyError, *UNSTORABLE) as error:
                appended.refuse(entry, error)
            else:
                kept.append((feed, [entry]))
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
