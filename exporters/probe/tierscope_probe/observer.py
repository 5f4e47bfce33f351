"""From the scheduler's calls to records: which call means what, and what must not be counted.

    lookup* -> allocation (= admission) -> [second allocation = load finished] -> steps -> finish
       ^------------------------- preemption --------------------------'

A lookup is repeated while a request cannot be scheduled, so only the last answer before an allocation
counts. An allocation without a lookup before it ends an asynchronous load. Later admissions of a request
have attempt > 0: the engine does not count their prompt again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from tierscope_probe import records
from tierscope_probe.engine import EngineRequest
from tierscope_probe.errors import ErrorCount
from tierscope_probe.records import Draft

MOST_REQUESTS = 100_000
"""Requests remembered at once; an engine holds far fewer, so only a missed finish can pile them up."""

UNKNOWN = object()

Split = Callable[[EngineRequest, int], Mapping[object, int]]


class _Remembered:
    """What is known of one request between its first lookup and its end."""

    __slots__ = (
        "admissions",
        "admitted_at",
        "loading",
        "loads_async",
        "local",
        "looked_at",
        "lookups",
        "offered",
        "reached_first",
        "request",
        "undecided",
    )

    def __init__(self, request: EngineRequest) -> None:
        self.request = request
        self.lookups = self.undecided = self.local = self.admissions = 0
        self.offered: int | None = 0
        self.looked_at = self.admitted_at = 0.0
        self.loads_async = self.loading = self.reached_first = False


class Observer:
    """Turns the calls of one engine's scheduler into records, in the order they happen.

    One thread calls it. `offer` takes each record's draft: on the scheduler's thread values are only picked
    up. `unit_tokens` is how many tokens one block hash stands for; where a request's hashes say otherwise,
    `other_units` is asked for further sizes and `unit_changed` told of the one that fits. No method
    raises: what goes wrong is counted in `errors`. `spent_ns` and `calls` say how long the scheduler was
    kept, by kind of call. `clock` gives unix seconds.
    """

    def __init__(
        self,
        offer: Callable[[Draft], None],
        *,
        unit_tokens: int,
        other_units: Callable[[], tuple[int, ...]] = tuple,
        unit_changed: Callable[[int], None] = lambda _: None,
        errors: ErrorCount,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._offer = offer
        self._unit_tokens = unit_tokens
        self._other_units = other_units
        self._unit_changed = unit_changed
        self._errors = errors
        self.clock = clock
        self._stopwatch = stopwatch
        self._requests: dict[str, _Remembered] = {}
        self._waiting_for_first: dict[str, _Remembered] = {}
        self.spent_ns = dict.fromkeys(("lookup", "alloc", "meta", "finish"), 0)
        self.calls = dict.fromkeys(self.spent_ns, 0)

    def looked_up(
        self,
        request: EngineRequest,
        local_tokens: int,
        answer: tuple[int | None, bool],
        asked_at_unix_seconds: float,
    ) -> None:
        """The connector was asked what it has beyond `local_tokens`. (None, …): it does not know yet.

        The time is `clock`'s from before it was asked: while it answers, its cache server already looks.
        """
        began = self._stopwatch()
        try:
            seen = self._requests.get(request.request_id) or self._remember(request)
            if seen.lookups == 0:
                seen.looked_at = asked_at_unix_seconds
            seen.lookups += 1
            seen.local = local_tokens
            seen.offered, seen.loads_async = answer
            if seen.offered is None:
                seen.undecided += 1
        except Exception as error:  # noqa: BLE001  an exception here would end the engine
            self._errors.add("read a lookup", error)
        self._took("lookup", began)

    def allocated(self, request: EngineRequest, external_tokens: int, split: Split | None = None) -> None:
        """Blocks were given to a request, `external_tokens` of them to be loaded by the connector.

        `split` tells, after the real connector's own work, which tiers those come from.
        """
        began = self._stopwatch()
        try:
            seen = self._requests.get(request.request_id) or self._remember(request)
            if seen.lookups or not seen.admissions:
                self._admit(seen, external_tokens, split)
            elif seen.loading:
                seen.loading = False
                now = self.clock()
                self._offer((records.loaded, (request.request_id, now, now - seen.admitted_at)))
        except Exception as error:  # noqa: BLE001
            self._errors.add("read an admission", error)
        self._took("alloc", began)

    def scheduled(self, output: object, requests: Mapping[str, EngineRequest]) -> None:
        """A scheduler without an observing connector made its plan: what is new or resumed was admitted."""
        began = self._stopwatch()
        try:
            for request_id, computed_tokens in _admitted(output) if _may_admit(output) else ():
                seen = self._requests.get(request_id) or self._remember(requests[request_id])
                seen.local = computed_tokens
                self._admit(seen, 0, None)
        except Exception as error:  # noqa: BLE001
            self._errors.add("read a schedule", error)
        self._took("alloc", began)

    def stepped(self) -> None:
        """The scheduler made a step: requests may have got their first token in the one before."""
        began = self._stopwatch()
        try:
            if self._waiting_for_first:
                for seen in [
                    seen for seen in self._waiting_for_first.values() if reached_first(seen.request)
                ]:
                    self._first(seen)
        except Exception as error:  # noqa: BLE001
            self._errors.add("look for first tokens", error)
        self._took("meta", began)

    def finished(self, request: EngineRequest) -> None:
        """A request ended, whether or not it was ever admitted."""
        began = self._stopwatch()
        try:
            seen = self._requests.pop(request.request_id, None)
            admitted = seen is not None and seen.admissions > 0
            if seen is not None and admitted and not seen.reached_first and reached_first(request):
                self._first(seen)
            self._waiting_for_first.pop(request.request_id, None)
            self._offer(
                (
                    records.finish,
                    (
                        request.request_id,
                        self.clock(),
                        request.status,
                        request.num_prompt_tokens,
                        request.num_output_tokens,
                        getattr(request, "num_preemptions", 0),
                        admitted,
                        len(request.block_hashes),
                    ),
                )
            )
        except Exception as error:  # noqa: BLE001
            self._errors.add("read a finish", error)
        self._took("finish", began)

    def _remember(self, request: EngineRequest) -> _Remembered:
        if len(self._requests) >= MOST_REQUESTS:
            oldest = next(iter(self._requests))
            self._waiting_for_first.pop(oldest, None)
            del self._requests[oldest]
            self._errors.add("keep every request", f"{oldest} never finished")
        seen = self._requests[request.request_id] = _Remembered(request)
        return seen

    def _admit(self, seen: _Remembered, external_tokens: int, split: Split | None) -> None:
        request = seen.request
        now = self.clock()
        attempt = max(seen.admissions, getattr(request, "num_preemptions", 0))
        prefill = prefill_of(request) if attempt == 0 else None
        local, external = prefill[1:] if prefill else (seen.local, external_tokens)
        values = (
            request.request_id,
            now,
            attempt,
            (request.num_prompt_tokens, request.num_tokens, local, external),
            (seen.lookups, seen.undecided, seen.looked_at, seen.offered, seen.loads_async),
            split(request, external) if split is not None and external > 0 else None,
            prefill,
            (request.arrival_time, getattr(request, "skip_reading_prefix_cache", False)),
        )
        self._offer(
            (records.first_admit, (self._identity(request), *values))
            if attempt == 0
            else (records.admit, values)
        )
        seen.lookups = seen.undecided = 0
        seen.admissions = attempt + 1
        seen.admitted_at = now
        seen.loading = seen.loads_async and external_tokens > 0
        if not seen.reached_first:
            self._waiting_for_first[request.request_id] = seen

    def _first(self, seen: _Remembered) -> None:
        seen.reached_first = True
        request = seen.request
        self._waiting_for_first.pop(request.request_id, None)
        self._offer((records.first, (request.request_id, self.clock(), request.arrival_time)))

    def _identity(self, request: EngineRequest) -> tuple[object, ...]:
        return (
            self._prompt_hashes(request),
            getattr(request, "cache_salt", None),
            getattr(request, "lora_request", None),
            getattr(request, "session_id", None),
            getattr(request, "trace_headers", None),
        )

    def _prompt_hashes(self, request: EngineRequest) -> Sequence[object] | None:
        """Return the hashes of the prompt's full blocks; None when their size is not understood."""
        hashes = request.block_hashes
        if len(hashes) != request.num_tokens // self._unit_tokens and not self._find_unit(request):
            return None
        return hashes[: request.num_prompt_tokens // self._unit_tokens]

    def _find_unit(self, request: EngineRequest) -> bool:
        """Take another size of a hashed block if one fits; a request without hashes tells nothing."""
        hashes = len(request.block_hashes)
        for unit in self._other_units() if hashes else ():
            if hashes == request.num_tokens // unit:
                self._unit_tokens = unit
                self._unit_changed(unit)
                return True
        if hashes:
            self._errors.add("tell the size of a hashed block", f"{hashes} for {request.num_tokens} tokens")
        return False

    def _took(self, call: str, began: int) -> None:
        self.spent_ns[call] += self._stopwatch() - began
        self.calls[call] += 1


def reached_first(request: EngineRequest) -> bool:
    """Whether the engine has counted a request's prompt: it does so with the first output.

    From 0.20 on it takes `prefill_stats` away at that moment; before, the first output token tells.
    """
    stats = getattr(request, "prefill_stats", UNKNOWN)
    return request.num_output_tokens > 0 if stats is UNKNOWN else stats is None


def prefill_of(request: EngineRequest) -> tuple[int, int, int] | None:
    """Return the engine's own (prompt, local, external) tokens of a first admission; None before 0.20."""
    stats = getattr(request, "prefill_stats", None)
    if stats is None or not stats.num_prompt_tokens:
        return None
    return (stats.num_prompt_tokens, stats.num_local_cached_tokens, stats.num_external_cached_tokens)


def _may_admit(output: object) -> bool:
    """Whether a plan may admit anyone; most steps only go on with what is running."""
    cached = getattr(output, "scheduled_cached_reqs", None)
    resumed = getattr(cached, "resumed_req_ids", None)
    return bool(getattr(output, "scheduled_new_reqs", None) or resumed or resumed is None)


def _admitted(output: object) -> list[tuple[str, int]]:
    """Return the ids admitted by a scheduler's plan, each with the tokens it need not compute."""
    admitted = [(new.req_id, new.num_computed_tokens) for new in getattr(output, "scheduled_new_reqs", ())]
    cached = getattr(output, "scheduled_cached_reqs", None)
    ids = getattr(cached, "req_ids", ())
    computed = getattr(cached, "num_computed_tokens", ())
    resumed = getattr(cached, "resumed_req_ids", None)
    if resumed is None:  # up to 0.11 there is a flag for each id instead
        flags = getattr(cached, "resumed_from_preemption", ())
        resumed = {id_ for id_, again in zip(ids, flags, strict=True) if again}
    return admitted + [(id_, tokens) for id_, tokens in zip(ids, computed, strict=True) if id_ in resumed]
