"""What of a feed is new: batches after the stored position, and how complete the feed is.

Pure bookkeeping: the store commits what is planned here in one transaction with the rows, so that a
batch is in the store exactly once, whatever was sent twice and whenever a process died.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tierscope.domain.batch import FeedBatch, FeedGap, FeedPosition
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceId, SourceKind

FeedItem = FeedBatch | FeedGap

Run = tuple[str, int]
"""One run of one exporter: its name and incarnation."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """How far one run of an exporter is stored; `at_unix_seconds` is its last batch's time, if any."""

    feed: int
    sequence: int
    at_unix_seconds: float | None


@dataclass(slots=True)
class Plan:
    """What one append does: new batches by feed number, coverage of the feeds, positions after it."""

    batches: list[tuple[int, FeedBatch]] = field(default_factory=list)
    coverage: list[tuple[int, SourceCoverage]] = field(default_factory=list)
    """Of the feeds themselves, by feed number."""
    states: dict[Run, FeedState] = field(default_factory=dict)
    repeated_batches: int = 0


class FeedLog:
    """The stored position of every run of every exporter. Runs are numbered as they are first seen."""

    def __init__(self, states: dict[Run, FeedState]) -> None:
        self._states = states

    def position(self, exporter: str) -> FeedPosition | None:
        """Where the exporter's latest run stands, None before anything of it is stored."""
        runs = [(state, run) for run, state in self._states.items() if run[0] == exporter]
        if not runs:
            return None
        state, (_, incarnation) = max(runs, key=lambda found: found[0].feed)
        return FeedPosition(exporter, incarnation, state.sequence)

    def plan(self, items: Iterable[FeedItem], now_unix_seconds: float) -> Plan:
        """Sort out what is new in `items`, in order. Nothing changes before `commit`."""
        plan = Plan()
        for item in items:
            if isinstance(item, FeedGap):
                self._lose(plan, item, now_unix_seconds)
            else:
                self._receive(plan, item, now_unix_seconds)
        return plan

    def commit(self, plan: Plan) -> None:
        """The plan is in the store: go on from there."""
        self._states |= plan.states

    def _receive(self, plan: Plan, batch: FeedBatch, now_unix_seconds: float) -> None:
        position = batch.position
        run = (position.exporter, position.incarnation)
        state = self._state(plan, run)
        if position.sequence <= state.sequence:
            plan.repeated_batches += 1
            return
        at = batch.at_unix_seconds if math.isfinite(batch.at_unix_seconds) else now_unix_seconds
        if position.sequence > state.sequence + 1:  # a hole that no one reported is a hole all the same
            self._lose(plan, FeedGap(*run, state.sequence + 1, position.sequence - 1), at)
        heard = _coverage(run, at, position.sequence, restarts=self._restarts(plan, run))
        plan.coverage.append((state.feed, heard))
        plan.batches.append((state.feed, batch))
        plan.states[run] = FeedState(state.feed, position.sequence, at)

    def _lose(self, plan: Plan, gap: FeedGap, at_unix_seconds: float) -> None:
        run = (gap.exporter, gap.incarnation)
        state = self._state(plan, run)
        first = max(gap.first_sequence, state.sequence + 1)
        if first > gap.last_sequence:
            return
        lost = SourceCoverage(
            SourceId(SourceKind.FEED, gap.exporter),
            gap.incarnation,
            min(at_unix_seconds, state.at_unix_seconds or at_unix_seconds),
            at_unix_seconds,
            received=0,
            missing=gap.last_sequence - first + 1,
            restarts=self._restarts(plan, run),
            first_sequence=first,
            last_sequence=gap.last_sequence,
        )
        plan.coverage.append((state.feed, lost))
        plan.states[run] = replace(state, sequence=gap.last_sequence)

    def _state(self, plan: Plan, run: Run) -> FeedState:
        state = plan.states.get(run) or self._states.get(run)
        if state is not None:
            return state
        runs = self._states.keys() | plan.states.keys()
        return FeedState(len(runs), -1, None)

    def _restarts(self, plan: Plan, run: Run) -> int:
        """1 for the first that is seen of a run after an earlier run of the same exporter."""
        runs = self._states.keys() | plan.states.keys()
        return int(run not in runs and any(exporter == run[0] for exporter, _ in runs))


def _coverage(run: Run, at_unix_seconds: float, sequence: int, *, restarts: int) -> SourceCoverage:
    exporter, incarnation = run
    return SourceCoverage(
        SourceId(SourceKind.FEED, exporter),
        incarnation,
        at_unix_seconds,
        at_unix_seconds,
        received=1,
        missing=0,
        restarts=restarts,
        first_sequence=sequence,
        last_sequence=sequence,
    )


def joined(earlier: SourceCoverage, later: SourceCoverage) -> SourceCoverage:
    """Two intervals of one run of a source as one."""
    return SourceCoverage(
        later.source,
        later.incarnation,
        min(earlier.since_unix_seconds, later.since_unix_seconds),
        max(earlier.at_unix_seconds, later.at_unix_seconds),
        earlier.received + later.received,
        earlier.missing + later.missing,
        earlier.undecodable + later.undecodable,
        earlier.restarts + later.restarts,
        _known(min, earlier.first_sequence, later.first_sequence),
        _known(max, earlier.last_sequence, later.last_sequence),
        later.stale,
    )


def by_minute(
    found: Iterable[tuple[int, SourceCoverage]],
) -> tuple[list[tuple[int, SourceCoverage]], list[tuple[int, SourceCoverage]]]:
    """Sort (feed, interval) into (whole, broken): what is complete is joined by the minute it began in.

    A feed, source and run has one whole interval a minute; what lost something stays as it came, so that
    its sequence numbers tell what was lost.
    """
    whole: dict[tuple[int, SourceId, int, int], SourceCoverage] = {}
    broken = []
    for feed, interval in found:
        if interval.missing or interval.undecodable:
            broken.append((feed, interval))
            continue
        key = (feed, interval.source, interval.incarnation, int(interval.since_unix_seconds // 60))
        whole[key] = joined(whole[key], interval) if key in whole else interval
    return [(feed, interval) for (feed, *_), interval in whole.items()], broken


def _known(pick: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return pick(one, other)
