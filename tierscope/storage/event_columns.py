"""Block events as an Arrow table, column by column: an append brings more of them than of anything else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tierscope.domain.events import BlockEvent
from tierscope.domain.trace import UInt64Array
from tierscope.domain.window import MOST_UNIX_SECONDS
from tierscope.storage.columns import DAY_SECONDS
from tierscope.storage.rows import hash_lists, row_id
from tierscope.storage.schema import BLOCK_EVENTS

_SCHEMA = BLOCK_EVENTS.arrow_schema()


def block_events_table(events: Sequence[BlockEvent], told_by: Sequence[int]) -> pa.Table:
    """Return events as rows of `block_events`, without what another feed among them told earlier.

    `told_by` has the number of each event's feed. Raises one of `UNSTORABLE` for a value that no column can
    hold.
    """
    times = np.array([event.at_unix_seconds for event in events], dtype=np.float64)
    if not (np.abs(times) <= MOST_UNIX_SECONDS).all():  # a NaN is not, either
        raise ValueError("a block event has no time in unix seconds")
    hashes = hash_lists([event.block_hashes for event in events])
    values = {
        "feed": np.array(told_by, dtype=np.int64),
        "tier": [event.tier for event in events],
        "holder": [event.holder for event in events],
        "action": [event.action for event in events],
        "reason": [event.reason for event in events],
        "at_unix_seconds": times,
        "block_tokens": [event.block_tokens or None for event in events],
        "parent_hash": [event.parent_hash for event in events],
        "blocks": hashes.value_lengths(),
        "block_hashes": hashes,
        "sequence": [event.sequence for event in events],
        "ordinal": [event.ordinal for event in events],
        "day": np.floor(times / DAY_SECONDS).astype("int64").astype("datetime64[D]"),
    }
    columns = {name: pa.array(value, _SCHEMA.field(name).type) for name, value in values.items()}
    columns["id"] = pa.array(_ids(columns, events))
    table = pa.table([columns[name] for name in _SCHEMA.names], schema=_SCHEMA)
    return _told_first(table) if len(set(told_by)) > 1 else table


def _told_first(table: pa.Table) -> pa.Table:
    """Leave out the events that another feed told in an earlier row."""
    ids, feeds = (table.column(name).to_numpy().tolist() for name in ("id", "feed"))
    first: dict[int, int] = {}
    own = [first.setdefault(one, feed) == feed for one, feed in zip(ids, feeds, strict=True)]
    return table if all(own) else table.filter(pa.array(own))


def _ids(columns: dict[str, pa.Array], events: Sequence[BlockEvent]) -> UInt64Array:
    """Mix the place of each event in its holder's stream; or name what it did, if no message told it.

    Equal events have equal ids, whichever run of an exporter told them.
    """
    sequences = columns["sequence"]
    ids = np.zeros(len(events), dtype=np.uint64)
    for part in (
        _hashed(columns["tier"]),
        _hashed(columns["holder"]),
        columns["at_unix_seconds"].to_numpy().view(np.uint64),
        sequences.fill_null(0).to_numpy().view(np.uint64),
        columns["ordinal"].to_numpy().astype(np.uint64),
    ):
        ids = _mixed(ids ^ part)
    for row, event in enumerate(events if sequences.null_count else ()):
        if event.sequence is None:
            ids[row] = _named(event)
    return ids


def _hashed(names: pa.StringArray) -> UInt64Array:
    """64 bits for each name; an append has few different ones."""
    coded = names.dictionary_encode()
    hashes: UInt64Array = np.array([row_id(name) for name in coded.dictionary.to_pylist()], dtype=np.uint64)
    of_each: UInt64Array = hashes[coded.indices.to_numpy()]
    return of_each


def _mixed(bits: UInt64Array) -> UInt64Array:
    """Spread what differs over all 64 bits, one to one: the step of SplitMix64 (Steele and others, 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _named(event: BlockEvent) -> int:
    hashes = event.block_hashes
    first = hashes[0] if hashes else None
    return row_id(event.tier, event.holder, event.at_unix_seconds, event.action, first, len(hashes))
