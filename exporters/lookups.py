"""The lookups of one cache server, kept until the admissions they belong to come.

The server's stream and the engines' are read by one thread, in any order: a lookup may be told before its
admission, which is usual, or after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from tierscope.analytics.chunk_names import PromptNames
from tierscope.domain.names import beginning_of
from tierscope.domain.requests import (
    AdmissionName,
    CacheLookup,
    LateMove,
    RequestRecord,
    TierLoad,
    TierStore,
)

MOST_REQUESTS = 100_000
"""Requests whose lookups are kept; of a request that never loads nobody asks for them."""

MOST_COPIES = 200_000
"""Copies that are kept, of all requests together: 40 MB. Where no engine has the hook nobody takes them."""

MOST_TOLD = 20_000
"""Requests whose admissions are remembered after they were told."""

LATE_SECONDS = 1.0
"""How long a late copy waits, lest it be of an admission that is told just after it."""

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

    `changes` grows with everything that may settle an admission which waits; `tells_misses` says that it also
    knows lookups of admissions that loaded nothing.
    """

    changes: int
    tells_misses: bool

    @property
    def chunk_tokens(self) -> int | None:
        """Tokens of a chunk, as the cache itself tells; nothing until it does."""

    def take(self, wanted: Wanted) -> CacheLookup | None:
        """Return the lookup of an admission, once; None if it is not known, or not yet."""

    def cannot_come(self, wanted: Wanted) -> bool:
        """Whether it would be known by now."""

    def joined(self, record: RequestRecord, request_id: str) -> None:
        """A record is told, with its lookup if it has one; `request_id` is the engine's whole one."""


@dataclass(slots=True)
class _Asked:
    """What one request asked for: lookups by their number, loads that no lookup has claimed, and stores."""

    lookups: dict[int, CacheLookup] = field(default_factory=dict)
    loads: list[TierLoad] = field(default_factory=list)
    stores: list[TierStore] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it waits for anybody."""
        return not (self.lookups or self.loads or self.stores)


@dataclass(slots=True)
class _ToldOf:
    """The admissions of one request that were told, in any order, each with when it was admitted."""

    server: str
    admissions: list[tuple[float, AdmissionName]] = field(default_factory=list)


class Lookups:
    """The lookups of one server by request and number, the oldest requests forgotten first.

    Not thread-safe: the thread that reads the streams has it to itself. `changes` grows with everything
    that may settle an admission which waits. `names` are shared by the servers of a node; `chunk_tokens` is
    the size of a chunk, 0 until the server tells it.
    """

    tells_misses = True

    def __init__(
        self,
        names: PromptNames | None = None,
        *,
        most_requests: int = MOST_REQUESTS,
        most_copies: int = MOST_COPIES,
    ) -> None:
        self.names = names or PromptNames()
        self.chunk_tokens = 0
        self._most_requests = most_requests
        self._most_copies = most_copies
        self._copies = 0
        """Loads and stores of all that was asked."""
        self._asked: dict[str, _Asked] = {}
        self._told: dict[str, _ToldOf] = {}
        self._late: dict[str, float | None] = {}
        """Requests that were told and have copies of their own since, with when that was first looked at."""
        self._told_until_unix_seconds = float("-inf")
        self.changes = 0

    def answered(self, request_id: str, number: int, lookup: CacheLookup) -> None:
        """The server answered the lookup of a request's `number`-th admission (from 0)."""
        self._of(request_id).lookups[number] = lookup
        self.changes += 1

    def loaded(self, request_id: str, load: TierLoad) -> None:
        """The server loaded for a request, within a lookup or after it."""
        self._of(request_id).loads.append(load)
        self._copied(request_id)

    def stored(self, request_id: str, store: TierStore) -> None:
        """The server took chunks of a request from its engine."""
        self._of(request_id).stores.append(store)
        self._copied(request_id)

    def told_until(self, unix_seconds: float) -> None:
        """Every lookup that ended before this time has been told, or is lost for good."""
        self._told_until_unix_seconds = max(self._told_until_unix_seconds, unix_seconds)
        self.changes += 1

    def take(self, wanted: Wanted) -> CacheLookup | None:
        """Return the lookup of an admission with the loads made for it, once; None if it is not known.

        Its loads are those that ended after it began and before the request's next lookup did. All others
        wait for their lookups, or are late.
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
        asked.loads = [load for load in asked.loads if not began <= load.ended_unix_seconds < until]
        self._copies -= len(mine)
        if asked.is_empty:
            del self._asked[wanted.request_id]
        return replace(lookup, loads=tuple(mine))

    def late(self, monotonic_seconds: float) -> list[LateMove]:
        """Return, once, what was stored for told admissions, and what was loaded and told after them.

        It goes to the last admission before it began.
        """
        due: list[LateMove] = []
        for request_id, since in list(self._late.items()):
            if since is None:
                self._late[request_id] = monotonic_seconds
            elif monotonic_seconds - since >= LATE_SECONDS:
                del self._late[request_id]
                due += self._take_late(request_id)
        return due

    def _take_late(self, request_id: str) -> list[LateMove]:
        asked, told = self._asked.get(request_id), self._told.get(request_id)
        if asked is None or told is None:
            return []
        # What was loaded before a lookup that still waits for its admission is that one's.
        loads = [] if asked.lookups else asked.loads
        moves: list[TierLoad | TierStore] = [*loads, *asked.stores]
        found: list[LateMove] = []
        for move in moves:
            began = (
                move.ended_unix_seconds if move.started_unix_seconds is None else move.started_unix_seconds
            )
            before = [one for one in told.admissions if one[0] <= began + CLOCK_ALLOWANCE_SECONDS]
            if before:
                _, name = max(before)
                found.append(LateMove(name, told.server, move))
        asked.stores = []
        if loads:
            asked.loads = []
        self._copies -= len(moves)
        if asked.is_empty:
            del self._asked[request_id]
        return found

    def _copied(self, request_id: str) -> None:
        self._copies += 1
        if request_id in self._told:
            self._late.setdefault(request_id, None)
        while self._copies > self._most_copies:
            self._forget_oldest()

    def joined(self, record: RequestRecord, request_id: str) -> None:
        """Remember an admission, and what engine and server call its same first tokens."""
        if record.lookup is None:
            return
        self._remember(request_id, record, record.lookup.server)
        beginning = beginning_of(record)
        if beginning is not None:
            self.names.take(beginning)

    def _remember(self, request_id: str, record: RequestRecord, server: str) -> None:
        told = self._told.get(request_id)
        if told is None:
            if len(self._told) >= MOST_TOLD:
                del self._told[next(iter(self._told))]
            told = self._told[request_id] = _ToldOf(server)
        told.admissions.append((record.admitted_unix_seconds, record.name))
        if request_id in self._asked:
            self._late.setdefault(request_id, None)

    def cannot_come(self, wanted: Wanted) -> bool:
        """Whether the lookup of such an admission would have been told by now."""
        return self._told_until_unix_seconds > wanted.admitted_unix_seconds + CLOCK_ALLOWANCE_SECONDS

    def _of(self, request_id: str) -> _Asked:
        asked = self._asked.get(request_id)
        if asked is None:
            if len(self._asked) >= self._most_requests:
                self._forget_oldest()
            asked = self._asked[request_id] = _Asked()
        return asked

    def _forget_oldest(self) -> None:
        asked = self._asked.pop(next(iter(self._asked)))
        self._copies -= len(asked.loads) + len(asked.stores)


def _began(lookup: CacheLookup) -> float:
    start = lookup.started_unix_seconds
    return lookup.ended_unix_seconds if start is None else start
