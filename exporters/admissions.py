"""From the hook's records of one engine to request records: who was admitted, and what became of it.

A first admission is finished at its first token (`served`) or at its end without one (`aborted`). A
re-admission is finished when its load has ended or something else happens to the request.
Requests stay in a bounded table from admission to end, so that a record that comes twice counts once.

Where a cache server tells its lookups, an admission that was looked up is told once its lookup is known, or
once that cannot come any more.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from exporters.attribution import contradicts, split_admission
from exporters.callers import trace_context
from exporters.engines import EngineFacts
from exporters.lookups import Wanted
from exporters.oddities import Oddity
from exporters.page_state import Told
from exporters.private import KeyedHash
from exporters.vllm.hook import Admit, Finish, First, Hello, HookRecord, Loaded, Stats
from exporters.vllm.hook_chains import ChainMemory
from tierscope.domain.errors import BadInput
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import (
    UNKNOWN_MODEL,
    CacheLookup,
    ExternalReason,
    RequestRecord,
    RequestStatus,
    TokenSplit,
    TraceContext,
)

MOST_REQUESTS = 65_536
"""Requests of one engine that may be open at once; the oldest one is given up for a new one."""

MOST_WAITING = 10_000
"""Admissions of one engine that may wait for their lookups; the oldest one is told without for a new one."""

PATIENCE_SECONDS = 30.0
"""How long an admission that loaded waits for its lookup while the server's stream says nothing at all."""

MISS_PATIENCE_SECONDS = 2.0
"""The same for one that loaded nothing: of it all is known but what L1 had, and what was stored for it."""

_RANDOM_SUFFIX = re.compile(r"-[0-9a-f]{8}$")
"""What the engine adds to the id that its API and its spans show."""


@dataclass(slots=True)
class _Admission:
    admit: Admit
    tokens: TokenSplit
    """Without what a lookup may say of it."""
    block_hashes: tuple[int, ...]
    trace: TraceContext | None
    load_seconds: float | None = None


@dataclass(slots=True)
class _Ended:
    """An admission of which all is known but its lookup."""

    admission: _Admission
    status: RequestStatus
    ttft_seconds: float | None
    at_unix_seconds: float
    waits_since: float | None = None
    """Monotonic seconds, from the first look at it on."""

    @property
    def patience_seconds(self) -> float:
        """How long it waits for a stream that says nothing."""
        return PATIENCE_SECONDS if self.admission.tokens.external else MISS_PATIENCE_SECONDS

    @property
    def told(self) -> Told:
        """Its name among those of this engine, and when its end was told."""
        admit = self.admission.admit
        return Told(f"{admit.rid} {admit.attempt}", self.at_unix_seconds)


@dataclass(slots=True)
class _Request:
    """One request from admission to end."""

    first: _Admission | None = None
    """Its first admission, until the first token."""
    again: _Admission | None = None
    """Its latest re-admission, until its load has ended."""
    attempt: int = -1
    """The latest attempt seen."""
    trace: TraceContext | None = None
    """Its caller's; the hook tells it with the first admission alone."""
    seen_unix_seconds: float = 0.0
    """When its latest record happened."""


@dataclass(slots=True)
class Outcome:
    """What one record led to: finished admissions, the names of each, and what was odd."""

    records: list[RequestRecord] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    dropped: int = 0
    """Records that the hook itself says it dropped."""


class Admissions:
    """Follows the hook of one engine. Used by one thread.

    `facts` are shared with the other readers of this engine. Session ids and salts leave as `hash_secret`
    makes them.
    """

    def __init__(
        self,
        engine: EngineId,
        facts: EngineFacts,
        hash_secret: KeyedHash,
        *,
        most_requests: int = MOST_REQUESTS,
    ) -> None:
        self._engine = engine
        self._facts = facts
        self._hash_secret = hash_secret
        self._most_requests = most_requests
        self._requests: dict[str, _Request] = {}
        self._waiting: deque[_Ended] = deque()
        self._lookup_changes: int | None = 0
        self._chains = ChainMemory()
        self._dropped_before: int | None = None

    @property
    def waiting(self) -> list[Told]:
        """What waits for its lookup."""
        return [ended.told for ended in self._waiting]

    def apply(self, records: Iterable[HookRecord]) -> Outcome:
        """Take records in stream order; return what they finished. Nothing raises: the odd is returned."""
        outcome = Outcome()
        for record in records:
            match record:
                case Admit():
                    self._admit(record, outcome)
                case Loaded():
                    self._loaded(record, outcome)
                case First():
                    self._first(record, outcome)
                case Finish():
                    self._finish(record, outcome)
                case Hello():
                    self._facts.model = record.model
                    self._facts.block_tokens = record.block_size
                    if self._dropped_before is None:  # else it is said again, for readers that came late
                        self._dropped_before = 0
                case Stats():
                    self._stats(record, outcome)
        return outcome

    def restart(self) -> Outcome:
        """The engine began anew: what was open will never be resolved."""
        outcome = Outcome()
        for request in self._requests.values():
            self._give_up(request, outcome)
        self._requests.clear()
        self._chains.forget()
        self._dropped_before = None
        return outcome

    def settle(self, monotonic_seconds: float) -> Outcome:
        """Tell the admissions whose lookups have come, or cannot come any more; at infinity all."""
        outcome = Outcome()
        if not self._waiting:
            return outcome
        lookups = self._facts.lookups
        changes = None if lookups is None else lookups.changes
        news, self._lookup_changes = lookups is None or changes != self._lookup_changes, changes
        waiting, self._waiting = self._waiting, deque()
        for ended in waiting:
            if ended.waits_since is None:
                ended.waits_since = monotonic_seconds
            overdue = monotonic_seconds >= ended.waits_since + ended.patience_seconds
            if not ((news or overdue) and self._told(ended, outcome, overdue=overdue)):
                self._waiting.append(ended)
        return outcome

    def _admit(self, admit: Admit, outcome: Outcome) -> None:
        request = self._requests.get(admit.rid)
        if request is None:
            request = self._open(admit.rid, outcome)
        if admit.attempt <= request.attempt:
            outcome.oddities.append(self._oddity("admission told twice", admit.rid))
            return
        request.attempt = admit.attempt
        request.seen_unix_seconds = admit.ts
        request.trace = request.trace or trace_context(admit.trace, admit.rid)
        admission = self._admission(admit, request.trace, outcome)
        if admit.attempt == 0:
            request.first = admission
            return
        self._end_again(request, outcome)
        request.again = admission
        if admission is not None and not admit.external:
            self._end_again(request, outcome)

    def _loaded(self, loaded: Loaded, outcome: Outcome) -> None:
        request = self._requests.get(loaded.rid)
        admission = request and (request.again or request.first)
        if not request or not admission:
            outcome.oddities.append(self._oddity("load of an unknown admission", loaded.rid))
            return
        request.seen_unix_seconds = loaded.ts
        admission.load_seconds = (admission.load_seconds or 0.0) + loaded.wait_s
        if admission is request.again:
            self._end_again(request, outcome)

    def _first(self, first: First, outcome: Outcome) -> None:
        request = self._requests.get(first.rid)
        if request is None:
            outcome.oddities.append(self._oddity("first token of an unknown admission", first.rid))
            return
        request.seen_unix_seconds = first.ts
        self._end_again(request, outcome)
        self._end_first(request, RequestStatus.SERVED, outcome, first.ttft_s)

    def _finish(self, finish: Finish, outcome: Outcome) -> None:
        request = self._requests.pop(finish.rid, None)
        if request is not None:  # else it was given up while it waited, or began before this stream
            request.seen_unix_seconds = finish.ts
            self._end_again(request, outcome)
            self._end_first(request, RequestStatus.ABORTED, outcome)

    def _stats(self, stats: Stats, outcome: Outcome) -> None:
        before = self._dropped_before
        if before is not None:
            outcome.dropped += stats.dropped - before if stats.dropped >= before else stats.dropped
        self._dropped_before = stats.dropped

    def _open(self, request_id: str, outcome: Outcome) -> _Request:
        if len(self._requests) >= self._most_requests:
            oldest = next(iter(self._requests))
            self._give_up(self._requests.pop(oldest), outcome)
        request = self._requests[request_id] = _Request()
        return request

    def _give_up(self, request: _Request, outcome: Outcome) -> None:
        self._end_again(request, outcome)
        self._end_first(request, RequestStatus.UNRESOLVED, outcome)

    def _end_again(self, request: _Request, outcome: Outcome) -> None:
        admission, request.again = request.again, None
        if admission is not None:
            self._record(
                _Ended(admission, RequestStatus.READMITTED, None, request.seen_unix_seconds), outcome
            )

    def _end_first(
        self, request: _Request, status: RequestStatus, outcome: Outcome, ttft_seconds: float | None = None
    ) -> None:
        admission, request.first = request.first, None
        if admission is not None:
            self._record(_Ended(admission, status, ttft_seconds, request.seen_unix_seconds), outcome)

    def _admission(self, admit: Admit, trace: TraceContext | None, outcome: Outcome) -> _Admission | None:
        """Return the admission with its tokens and chain, None (and why) where its tokens do not add up."""
        try:
            tokens, _ = split_admission(admit)
        except BadInput as error:
            outcome.oddities.append(Oddity("admission that does not add up", error))
            return None
        hashes = self._chains.resolve(admit.hashes)
        if hashes is None:
            outcome.oddities.append(self._oddity("chain with an unknown anchor", admit.rid))
        return _Admission(admit, tokens, hashes or (), trace)

    def _record(self, ended: _Ended, outcome: Outcome) -> None:
        if self._told(ended, outcome):
            return
        self._waiting.append(ended)
        if len(self._waiting) > MOST_WAITING:
            self._told(self._waiting.popleft(), outcome, overdue=True)

    def _told(self, ended: _Ended, outcome: Outcome, *, overdue: bool = False) -> bool:
        """Tell an admission, unless its lookup may still come; whether it was told."""
        lookups, admit, tokens = self._facts.lookups, ended.admission.admit, ended.admission.tokens
        if lookups is None:
            self._tell(ended, None, ExternalReason.NOT_REPORTED, outcome)
            return True
        wanted = _wanted(ended)
        lookup = lookups.take(wanted)
        if lookup is None and (tokens.external or (admit.lookups and lookups.tells_misses)):
            if not (overdue or lookups.cannot_come(wanted)):
                return False
            if tokens.external:
                outcome.oddities.append(self._oddity("load without its lookup", admit.rid))
        reason = ExternalReason.LOOKUP_MISSING
        if lookup is not None and contradicts(lookup, admit, tokens, self._block_tokens(ended.admission)):
            outcome.oddities.append(self._oddity("lookup that contradicts the admission", admit.rid))
            lookup, reason = None, ExternalReason.LOOKUP_CONTRADICTS
        self._tell(ended, lookup, reason, outcome)
        return True

    def _tell(
        self, ended: _Ended, lookup: CacheLookup | None, otherwise: ExternalReason, outcome: Outcome
    ) -> None:
        admission, admit = ended.admission, ended.admission.admit
        arrived = admit.ts if admit.arrival is None else admit.arrival
        waited = max(0.0, admit.ts - arrived) if admit.attempt == 0 else admit.lookup_wait_s
        try:
            tokens, external_reason = split_admission(admit, lookup, otherwise)
            record = RequestRecord(
                engine=self._engine,
                model=self._facts.model or UNKNOWN_MODEL,
                request_id=_RANDOM_SUFFIX.sub("", admit.rid),
                attempt=admit.attempt,
                status=ended.status,
                tokens=tokens,
                block_tokens=self._block_tokens(admission),
                block_hashes=admission.block_hashes,
                arrived_unix_seconds=arrived,
                admitted_unix_seconds=admit.ts,
                chunk_tokens=self._chunk_tokens(),
                external_reason=external_reason,
                queue_seconds=waited,
                load_seconds=admission.load_seconds,
                ttft_seconds=ended.ttft_seconds,
                session_hash=self._hash_secret(admit.session),
                salt_hash=self._hash_secret(admit.salt),
                trace=admission.trace,
                asks_cache=not admit.skip,
                lookup=lookup,
                adapter=admit.lora,
            )
        except BadInput as error:
            outcome.oddities.append(Oddity("admission that does not add up", error))
            return
        outcome.records.append(record)
        outcome.told.append(ended.told)
        if self._facts.lookups is not None:
            self._facts.lookups.joined(record, admit.rid)

    def _block_tokens(self, admission: _Admission) -> int:
        return self._facts.block_tokens or _guess_block_tokens(admission)

    def _chunk_tokens(self) -> int | None:
        told = self._facts.lookups.chunk_tokens if self._facts.lookups else None
        return self._facts.chunk_tokens or told or None

    def _oddity(self, what: str, request_id: str) -> Oddity:
        error = BadInput(
            f"the hook told of request {request_id}: {what}",
            where=f"hook of engine {self._engine}",
            fix="its tokens are counted at most once; if this goes on, the stream loses records",
        )
        return Oddity(what, error)


def _wanted(ended: _Ended) -> Wanted:
    """What to ask a keeper of lookups for."""
    admit, tokens = ended.admission.admit, ended.admission.tokens
    return Wanted(
        request_id=admit.rid,
        number=admit.attempt,
        admitted_unix_seconds=admit.ts,
        ended_unix_seconds=max(admit.ts, ended.at_unix_seconds),
        prompt_tokens=tokens.prompt,
        loaded_tokens=tokens.prompt - tokens.computed,
        external_tokens=tokens.external,
    )


def _guess_block_tokens(admission: _Admission) -> int:
    """The block size a chain implies, for records that come without the engine's `hello`.

    A prompt of p tokens has n full blocks, so a block has more than p/(n+1) and at most p/n tokens;
    among these numbers there is at most one power of two, and block sizes are powers of two.
    """
    prompt, blocks = admission.tokens.prompt, len(admission.block_hashes)
    largest = prompt // blocks if blocks else 16
    return 1 << (max(1, largest).bit_length() - 1)
