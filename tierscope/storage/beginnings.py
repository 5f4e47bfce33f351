"""Holders that began anew while nobody read them: what they held is gone, and the store knows what it was.

An exporter that meets an engine for the first time knows when its life began, not what was there before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import duckdb

from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.storage.event_columns import block_events_table
from tierscope.storage.schema import BLOCK_EVENTS

_LEFT = f"""
SELECT
  block_hash, CAST(sum(CASE action WHEN 'stored' THEN 1 ELSE -1 END) AS BIGINT) AS copies,
  max(told_at) AS told_at
FROM (
  SELECT action, at_unix_seconds AS told_at, unnest(block_hashes) AS block_hash FROM {BLOCK_EVENTS.name}
  WHERE tier = $tier AND holder = $holder AND at_unix_seconds < $began
)
GROUP BY block_hash HAVING copies > 0 ORDER BY block_hash
"""


def is_beginning(event: BlockEvent) -> bool:
    """Whether an event says no more than that a holder began, empty."""
    return event.reason is EvictionReason.RESTART and not event.block_hashes


def end_lives_before(cursor: duckdb.DuckDBPyConnection, begun: Iterable[tuple[int, BlockEvent]]) -> int:
    """Evict what holders that began anew had before, inside the caller's transaction; return how many rows.

    Told again of the same life it does nothing: what was before is evicted by then.
    """
    ended = 0
    for feed, event in begun:
        ended += _end(cursor, feed, event)
    return ended


def _end(cursor: duckdb.DuckDBPyConnection, feed: int, began: BlockEvent) -> int:
    values = {"tier": began.tier.value, "holder": began.holder, "began": began.at_unix_seconds}
    left = cursor.execute(_LEFT, values).fetchall()
    if not left:
        return 0
    copies = Counter({block_hash: count for block_hash, count, _ in left})
    gone = BlockEvent(
        tier=began.tier,
        holder=began.holder,
        action=BlockAction.EVICTED,
        block_hashes=tuple(copies.elements()),
        at_unix_seconds=max(at for *_, at in left),
        reason=EvictionReason.RESTART,
    )
    cursor.register("incoming", block_events_table([gone], [feed]))
    cursor.execute(f"INSERT INTO {BLOCK_EVENTS.name} BY NAME FROM incoming")
    cursor.unregister("incoming")
    return 1
