"""Lookups and the sessions they belong to: which request asked for which chunks, and how often before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tierscope_probe.hashes import low_bytes

MOST_SESSIONS = 20_000
"""Sessions remembered at once; the oldest are forgotten when their ends never came."""


class Session:
    """One engine request, between its first lookup and its end."""

    def __init__(self, rid: str) -> None:
        self.rid = rid
        self.answered = 0
        self.is_over = False
        self.begin(None)

    def begin(self, at: float | None) -> None:
        """A lookup begins; what an earlier one left is void."""
        self.is_open = at is not None
        self.start = at
        self.hashes: Sequence[bytes] = ()
        self.prompt_tokens: int | None = None
        self.request: int | None = None
        self.position = 0
        self.__dict__.pop("_chunks", None)

    @cached_property
    def _chunks(self) -> frozenset[bytes]:
        return frozenset(map(low_bytes, self.hashes))

    def asked_for(self, chunk: bytes) -> bool:
        """Whether the newest lookup named a chunk (the last 8 bytes of its hash)."""
        return chunk in self._chunks


class Sessions:
    """The sessions between their first lookup and their end.

    LMCache names a lookup by its session alone, a load from L2 by a number of its own, and a refused
    allocation by nothing but chunks. `loads_for` and `stores` find the session by what it asked for.
    """

    def __init__(self, most_sessions: int = MOST_SESSIONS) -> None:
        self._sessions: dict[str, Session] = {}
        self._most_sessions = most_sessions
        self._positions = self._ahead = 0

    def started(self, rid: str, at: float) -> None:
        """A lookup began."""
        self._get(rid).begin(at)

    def asked(self, rid: str, hashes: Sequence[bytes], prompt_tokens: int) -> None:
        """The lookup under way hashed its prompt."""
        session = self._get(rid)
        session.hashes = hashes
        session.prompt_tokens = prompt_tokens
        session.position = self._positions
        self._positions += 1

    def answered(self, rid: str) -> Session:
        """The lookup under way ended; returns its session, whose `answered` counts this one too."""
        session = self._get(rid)
        session.is_open = False
        session.answered += 1
        if session.is_over:
            del self._sessions[rid]
        return session

    def over(self, rid: str) -> None:
        """The request ended; a lookup that still runs may yet be answered."""
        session = self._sessions.get(rid)
        if session is not None:
            session.is_over = True
            if not session.is_open:
                del self._sessions[rid]

    def loads_for(self, request: int, chunk: bytes | None) -> str | None:
        """Return the session for which a load brought a chunk; None when none or nothing names it.

        Several may wait for the chunk: then the one this `request` loaded for before, else the one whose
        place among the lookups is nearest to the request's number, because LMCache numbers them in turn.
        """
        if chunk is None:
            return None
        waiting = [each for each in self._sessions.values() if each.is_open and each.asked_for(chunk)]
        free = [each for each in waiting if each.request in (None, request)]
        if not free:
            return None
        found = min(free, key=lambda each: (each.request is None, abs(each.position + self._ahead - request)))
        if len(waiting) == 1:
            self._ahead = request - found.position
        found.request = request
        return found.rid

    def stores(self, chunk: bytes) -> str | None:
        """Return the one session that asked for a chunk; None when there is none or more than one."""
        found = [each.rid for each in self._sessions.values() if each.asked_for(chunk)]
        return found[0] if len(found) == 1 else None

    def _get(self, rid: str) -> Session:
        session = self._sessions.get(rid)
        if session is None:
            if len(self._sessions) >= self._most_sessions:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[rid] = Session(rid)
        return session
