"""Block events as an Arrow table, column by column: an append brings more of them than of anything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from tierscope.domain.events import BlockEvent
from tierscope.storage.columns import DAY_SECONDS, MOST_UNIX_SECONDS
from tierscope.storage.rows import hash_lists, row_ids
from tierscope.storage.schema import BLOCK_EVENTS

Found = Sequence[tuple[int, BlockEvent]]
"""Block events, each with the number of the feed that brought it."""

_SCHEMA = BLOCK_EVENTS.arrow_schema()


def block_events_table(found: Found) -> pa.Table:
    """Return events as rows of `block_events`, without what another feed among them told earlier.

    Raises one of `UNSTORABLE` for a value that no column can hold.
    """
    events = [event for _, event in found]
    ids, feeds = row_ids(_names(events)), np.array([feed for feed, _ in found], dtype=np.int64)
    if len(feeds) and (feeds != feeds[0]).any():
        first: dict[int, int] = {}
        told = zip(ids.tolist(), feeds.tolist(), strict=True)
        own = np.array([first.setdefault(one, feed) == feed for one, feed in told])
        ids, feeds, events = ids[own], feeds[own], list(compress(events, own))
    hashes = [event.block_hashes for event in events]
    times = np.array([event.at_unix_seconds for event in events], dtype=np.float64)
    if not (np.abs(times) <= MOST_UNIX_SECONDS).all():  # a NaN is not, either
        raise ValueError("a block event has no time in unix seconds")
    columns = {
        "id": ids,
        "feed": feeds,
        "tier": [event.tier for event in events],
        "holder": [event.holder for event in events],
        "action": [event.action for event in events],
        "reason": [event.reason for event in events],
        "at_unix_seconds": times,
        "block_tokens": [event.block_tokens or None for event in events],
        "parent_hash": [event.parent_hash for event in events],
        "blocks": list(map(len, hashes)),
        "block_hashes": hash_lists(hashes),
        "sequence": [event.sequence for event in events],
        "ordinal": [event.ordinal for event in events],
        "day": np.floor(times / DAY_SECONDS).astype("int64").astype("datetime64[D]"),
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in _SCHEMA], schema=_SCHEMA)


def _names(events: Iterable[BlockEvent]) -> Iterator[str]:
    """Yield what makes each unique: its place in its holder's stream; or what it did, if no message told."""
    tier = holder = at = None
    for event in events:
        if event.at_unix_seconds != at or event.holder != holder or event.tier is not tier:
            # Neighbours are mostly of one message, and a time as text takes half of all this.
            tier, holder, at = event.tier, event.holder, event.at_unix_seconds
            who = f"{tier}\0{holder}\0{at}"
        if event.sequence is not None:
            yield f"{who}\0{event.sequence}\0{event.ordinal}"
        else:
            hashes = event.block_hashes
            yield f"{who}\0{event.action}\0{hashes[0] if hashes else None}\0{len(hashes)}"
