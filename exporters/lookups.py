"""The lookups of one cache server, kept until the admissions they belong to come.

The server's stream and the engines' are read by one thread, in any order: a lookup may be told before its
admission, which is usual, or after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from tierscope.analytics.chunk_names import ChunkNames
from tierscope.domain.requests import CacheLookup, RequestRecord, TierLoad

MOST_REQUESTS = 100_000
"""Requests whose lookups are kept; of a request that never loads nobody asks for them."""

CLOCK_ALLOWANCE_SECONDS = 0.25
"""By how much the clocks of an engine and its cache server may differ."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The admission that a lookup is wanted for: the how many-th of its request, from 0, and what it loaded.

    Its load was over when it ended: with its first token, its end, or a later admission. `loaded_tokens` are
    counted from the prompt's start, those of L0 with them; `external_tokens` without.
    """

    request_id: str
    number: int
    admitted_unix_seconds: float
    ended_unix_seconds: float
    prompt_tokens: int
    loaded_tokens: int
    external_tokens: int


class LookupKeeper(Protocol):
    """Knows what the cache below an engine had for its admissions.

    `changes` grows with everything that may settle an admission which waits.
    """

    changes: int

    def take(self, wanted: Wanted) -> CacheLookup | None:
        """Return the lookup of an admission, once; None if it is not known, or not yet."""

    def cannot_come(self, wanted: Wanted) -> bool:
        """Whether it would be known by now."""

    def joined(self, record: RequestRecord) -> None:
        """A record has its lookup."""


@dataclass(slots=True)
class _Asked:
    """What one request asked for: lookups by their number, and loads that no lookup has claimed."""

    lookups: dict[int, CacheLookup] = field(default_factory=dict)
    loads: list[TierLoad] = field(default_factory=list)


class Lookups:
    """The lookups of one server by request and number, the oldest requests forgotten first.

    Not thread-safe: the thread that reads the streams has it to itself. `changes` grows with everything
    that may settle an admission which waits. `names` are shared by the servers of a node; `chunk_tokens` is
    the size of a chunk, 0 until the server tells it.
    """

    def __init__(self, names: ChunkNames | None = None, *, most_requests: int = MOST_REQUESTS) -> None:
        self.names = names or ChunkNames()
        self.chunk_tokens = 0
        self._most_requests = most_requests
        self._asked: dict[str, _Asked] = {}
        self._told_until_unix_seconds = float("-inf")
        self.changes = 0

    def answered(self, request_id: str, number: int, lookup: CacheLookup) -> None:
        """The server answered the lookup of a request's `number`-th admission (from 0)."""
        self._of(request_id).lookups[number] = lookup
        self.changes += 1

    def loaded(self, request_id: str, load: TierLoad) -> None:
        """The server loaded for a request, within a lookup or after it."""
        self._of(request_id).loads.append(load)

    def told_until(self, unix_seconds: float) -> None:
        """Every lookup that ended before this time has been told, or is lost for good."""
        self._told_until_unix_seconds = max(self._told_until_unix_seconds, unix_seconds)
        self.changes += 1

    def take(self, wanted: Wanted) -> CacheLookup | None:
        """Return the lookup of an admission with the loads made for it, once; None if it is not known.

        Its loads are those that ended after it began and before the request's next lookup did.
        """
        asked = self._asked.get(wanted.request_id)
        lookup = None if asked is None else asked.lookups.pop(wanted.number, None)
        if asked is None or lookup is None:
            return None
        began = _began(lookup)
        until = min(
            (_began(each) for n, each in asked.lookups.items() if n > wanted.number), default=float("inf")
        )
        mine = [load for load in asked.loads if began <= load.ended_unix_seconds < until]
        asked.loads = [load for load in asked.loads if load.ended_unix_seconds >= until]
        if not asked.lookups and not asked.loads:
            del self._asked[wanted.request_id]
        return replace(lookup, loads=tuple(mine))

    def joined(self, record: RequestRecord) -> None:
        """A record has its lookup: note what engine and server call the same first tokens."""
        lookup, size = record.lookup, self.chunk_tokens
        if lookup is None or lookup.first_chunk_hash is None or size % record.block_tokens:
            return
        blocks = size // record.block_tokens
        if 0 < blocks <= len(record.block_hashes):
            prefix = record.block_hashes[blocks - 1]
            self.names.told(lookup.server, prefix, lookup.first_chunk_hash)

    def cannot_come(self, wanted: Wanted) -> bool:
        """Whether the lookup of such an admission would have been told by now."""
        return self._told_until_unix_seconds > wanted.admitted_unix_seconds + CLOCK_ALLOWANCE_SECONDS

    def _of(self, request_id: str) -> _Asked:
        asked = self._asked.get(request_id)
        if asked is None:
            if len(self._asked) >= self._most_requests:
                del self._asked[next(iter(self._asked))]
            asked = self._asked[request_id] = _Asked()
        return asked


def _began(lookup: CacheLookup) -> float:
    start = lookup.started_unix_seconds
    return lookup.ended_unix_seconds if start is None else start
