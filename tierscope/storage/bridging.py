"""What sources count on their own, measured against what the store last knew of it.

Engines count on while nobody reads them. A new run of an exporter cannot know what an earlier one has told,
but it says what a counter stands at; the store knows what it stood at in the last entry that it has. So what
grew while no exporter ran, or was in a batch that is lost, is in the next row, whose interval begins where
the last one ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb

from tierscope.domain.events import CounterState, EngineTokens, LedgerEntry, TierActivity
from tierscope.domain.requests import TokenSplit
from tierscope.storage.rows import arrow_table
from tierscope.storage.schema import COUNTER_STATES

Owner = tuple[str, str, str, str]
"""Exporter, kind of counters, whose they are, model."""

Values = tuple[int, ...]

COUNTED = (EngineTokens, TierActivity)
"""Entries that may say what a counter stands at; all others are stored as they are."""

_KNOWN = f"""
SELECT exporter, kind, owner, model, began_unix_seconds, at_unix_seconds, counts FROM {COUNTER_STATES.name}
"""
_KEEP = f"""
MERGE INTO {COUNTER_STATES.name} AS stored USING incoming USING (exporter, kind, owner, model)
WHEN MATCHED THEN UPDATE SET
  began_unix_seconds = incoming.began_unix_seconds, at_unix_seconds = incoming.at_unix_seconds,
  counts = incoming.counts
WHEN NOT MATCHED THEN INSERT BY NAME
"""


@dataclass(frozen=True, slots=True)
class _Stand:
    """What counters stood at in the last entry of them."""

    state: CounterState
    at_unix_seconds: float


class CounterBridge:
    """Remembers what counters stood at. Used inside the transaction that stores the entries."""

    def __init__(self) -> None:
        self._stands: dict[Owner, _Stand] | None = None
        self._changed: dict[Owner, _Stand] = {}

    def forget(self) -> None:
        """The transaction was rolled back: what is known is what the store says."""
        self._stands = None
        self._changed.clear()

    def measured(
        self, cursor: duckdb.DuckDBPyConnection, exporter: str, entry: LedgerEntry
    ) -> LedgerEntry | None:
        """Return the entry as what it adds to the store; None where it adds nothing.

        Entries that say nothing of what a counter stands at are left as they are. Raises `BadInput` for one
        that cannot be measured.
        """
        if isinstance(entry, EngineTokens) and _counts(entry, 6):
            owner = exporter, "engine_tokens", str(entry.engine), entry.model
            told = tuple(entry.tokens.as_dict().values())
            values, since = self._added(cursor, owner, entry, told)
            added = replace(entry, tokens=_split(values), since_unix_seconds=since)
            return added if added.tokens.prompt else None
        if isinstance(entry, TierActivity) and _counts(entry, 2):
            owner = exporter, f"{entry.tier}_lookups", entry.holder, ""
            told = entry.lookup_hit_tokens or 0, entry.lookup_miss_tokens or 0
            values, since = self._added(cursor, owner, entry, told)
            looked_up = max(0, sum(values))
            if not looked_up:
                return None
            hit = min(max(0, values[0]), looked_up)
            return replace(
                entry, lookup_hit_tokens=hit, lookup_miss_tokens=looked_up - hit, since_unix_seconds=since
            )
        return entry

    def keep(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Write down what changed."""
        if not self._changed:
            return
        made = [
            (*owner, stand.state.began_unix_seconds, stand.at_unix_seconds, stand.state.values)
            for owner, stand in self._changed.items()
        ]
        cursor.register("incoming", arrow_table(COUNTER_STATES, made))
        cursor.execute(_KEEP)
        cursor.unregister("incoming")
        self._changed.clear()

    def _added(
        self,
        cursor: duckdb.DuckDBPyConnection,
        owner: Owner,
        entry: EngineTokens | TierActivity,
        told: Values,
    ) -> tuple[Values, float]:
        """What an entry adds, and since when; `told` is what its reader saw grow."""
        assert entry.total is not None
        stands = self._read(cursor)
        known, now = stands.get(owner), _Stand(entry.total, entry.at_unix_seconds)
        if known is not None and _fell(known.state, now.state):
            return told, entry.since_unix_seconds
        stands[owner] = self._changed[owner] = now
        if known is None:
            return told, entry.since_unix_seconds
        if known.state.began_unix_seconds != now.state.began_unix_seconds:
            return now.state.values, now.state.began_unix_seconds
        pairs = zip(now.state.values, known.state.values, strict=True)
        return tuple(value - before for value, before in pairs), known.at_unix_seconds

    def _read(self, cursor: duckdb.DuckDBPyConnection) -> dict[Owner, _Stand]:
        if self._stands is None:
            self._stands = {
                (exporter, kind, owner, model): _Stand(CounterState(began, tuple(counts)), at)
                for exporter, kind, owner, model, began, at, counts in cursor.execute(_KNOWN).fetchall()
            }
        return self._stands


def _counts(entry: EngineTokens | TierActivity, parts: int) -> bool:
    """Whether an entry says what so many counters stand at."""
    return entry.total is not None and len(entry.total.values) == parts


def _fell(known: CounterState, now: CounterState) -> bool:
    """Whether a reading is of an earlier time, or of another way to count, than the one that is known."""
    if known.began_unix_seconds == now.began_unix_seconds:
        return sum(now.values) < sum(known.values)
    return now.began_unix_seconds < known.began_unix_seconds


def _split(values: Sequence[int]) -> TokenSplit:
    """A split of differences, of which any may be below 0.

    Engines count what a prompt hits before they count the prompt, and which tier a load came from may be
    known better or worse than before: one origin may have lost to another. The prompt is what it grew by;
    hits that were counted before it, in a difference of their own, are told as loads when it comes.
    """
    prompt, l0, l1, l2, _, computed = values
    prompt = max(0, prompt)
    l0 = min(max(0, l0), prompt)
    computed = min(max(0, computed), prompt - l0)
    loads = prompt - l0 - computed
    l1 = min(max(0, l1), loads)
    l2 = min(max(0, l2), loads - l1)
    return TokenSplit(prompt, l0, l1, l2, loads - l1 - l2, computed)
