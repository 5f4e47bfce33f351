"""From raw rows to a `Trace`: every rule of a trace is checked here, and a broken one names its row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace
from tierscope.traces.forest import dense, other_parents
from tierscope.traces.order import out_of_order

Mask = NDArray[np.bool_]
MOST_SESSION = 2**31 - 1


class Dialect(NamedTuple):
    """What a format calls a row, its time and its blocks."""

    row: str
    at: str
    blocks: str


class Rows(NamedTuple):
    """Requests as a file told them, unchecked. Shapes (n,), `offsets` (n + 1,), `ids` (accesses,).

    `numbers` are the rows' places in the file, from 1; `ids` may be any whole numbers.
    """

    numbers: Int64Array
    at_ms: Int64Array
    input_tokens: Int64Array
    output_tokens: Int64Array
    session: Int64Array
    offsets: Int64Array
    ids: Int32Array | Int64Array

    @property
    def has_sessions(self) -> bool:
        """Whether any request says which session it belongs to."""
        return bool(np.any(self.session >= 0))


class Rule(NamedTuple):
    """One thing that must hold of every row: the rows that break it, in what field, how, and what to do."""

    broken: Mask
    field: str
    what: Callable[[int], str]
    """What is wrong with the row of this index."""
    fix: str


def trace_of(
    rows: Rows,
    dialect: Dialect,
    *,
    name: str,
    block_tokens: int,
    skip_bad: bool,
    skipped: int = 0,
    unreadable: Iterable[Rule] = (),
) -> Trace:
    """Check rows and make a trace of them.

    The first row of the file that breaks a rule raises `BadInput`; with `skip_bad` such rows are left out
    and counted on top of the `skipped` ones. `unreadable` are rules that the reader checked already.
    """
    ids, n_ids = dense(rows.ids)
    bad = np.zeros(len(rows.numbers), dtype=np.bool_)
    found: list[tuple[int, Rule]] = []
    for rule in chain(unreadable, _rules(rows, ids, n_ids, dialect, block_tokens, bad)):
        fresh = np.flatnonzero(rule.broken & ~bad)
        if len(fresh):
            found.append((int(fresh[0]), rule))
            bad[fresh] = True
    if found and not skip_bad:
        row, rule = min(found, key=lambda each: each[0])
        raise BadInput(
            rule.what(row),
            where=f"{name}, {dialect.row} {rows.numbers[row]}, field {rule.field}",
            fix=f"{rule.fix}, or --skip-bad (bad {dialect.row}s: {int(bad.sum())})",
        )
    if bad.all():
        raise no_request(name, skipped + int(bad.sum()))
    return _trace(rows, ids, bad, name=name, block_tokens=block_tokens, skipped=skipped)


def no_request(name: str, skipped: int = 0) -> BadInput:
    """The error for a file without a request that could be used."""
    left_out = f" after {skipped} bad ones were left out" if skipped else ""
    return BadInput(f"the trace holds no request{left_out}", where=name, fix="name a trace with requests")


def _rules(
    rows: Rows, ids: Int32Array, n_ids: int, dialect: Dialect, block_tokens: int, bad: Mask
) -> Iterator[Rule]:
    """Yield the rules; `bad` holds the rows that broke an earlier one by the time a rule is asked for."""
    yield from _field_rules(rows, dialect, block_tokens)
    yield _order_rule(rows, dialect, bad)
    yield _forest_rule(rows, ids, n_ids, dialect, bad)


def _field_rules(rows: Rows, dialect: Dialect, block_tokens: int) -> Iterator[Rule]:
    """Yield the rules that a row keeps or breaks by itself."""
    at_ms, prompt, output, session = rows.at_ms, rows.input_tokens, rows.output_tokens, rows.session
    counts = np.diff(rows.offsets)
    yield Rule(
        at_ms < 0,
        dialect.at,
        lambda row: f"a negative timestamp: {at_ms[row]} ms",
        "give milliseconds from the start",
    )
    yield Rule(prompt < 1, "input_length", lambda row: f"a prompt of {prompt[row]} tokens", "give its length")
    yield Rule(
        output < 0, "output_length", lambda row: f"an output of {output[row]} tokens", "give its length"
    )
    yield Rule(
        (session < -1) | (session > MOST_SESSION),
        "session",
        lambda row: f"a session numbered {session[row]}",
        f"number sessions from 0 to {MOST_SESSION}, -1 where unknown",
    )
    yield Rule(
        (counts < prompt // block_tokens) | (counts > -(-prompt // block_tokens)),
        dialect.blocks,
        lambda row: f"{counts[row]} blocks of {block_tokens} tokens do not fit a prompt of {prompt[row]}",
        "name the trace's block size with --block-tokens",
    )


def _order_rule(rows: Rows, dialect: Dialect, bad: Mask) -> Rule:
    """Time never falls: in the file, or in each session where there are sessions."""
    session = rows.session if rows.has_sessions else np.zeros_like(rows.session)
    order = np.argsort(session, kind="stable")
    return Rule(
        out_of_order(rows.at_ms, session, order, bad),
        dialect.at,
        lambda row: f"time runs backwards: {rows.at_ms[row]} ms is out of order",
        "sort the trace by time",
    )


def _forest_rule(rows: Rows, ids: Int32Array, n_ids: int, dialect: Dialect, bad: Mask) -> Rule:
    """A block follows the same block wherever it occurs."""
    places = other_parents(rows.offsets, ids, n_ids, bad)
    return Rule(
        places >= 0,
        dialect.blocks,
        lambda row: f"block {rows.ids[places[row]]} follows another block than it did before",
        "number blocks by their whole prefix",
    )


def _trace(rows: Rows, ids: Int32Array, bad: Mask, *, name: str, block_tokens: int, skipped: int) -> Trace:
    """The rows that are not bad, with ids that are dense among them."""
    trace = Trace(
        name=name,
        block_tokens=block_tokens,
        at_ms=rows.at_ms,
        input_tokens=rows.input_tokens,
        output_tokens=rows.output_tokens,
        session=rows.session.astype(np.int32),
        offsets=rows.offsets,
        block_ids=ids,
        skipped_lines=skipped + int(bad.sum()),
    )
    if bad.any():
        trace = select(trace, np.flatnonzero(~bad))
        trace = replace(trace, block_ids=dense(trace.block_ids)[0])
    relative = rows.has_sessions and bool(np.any(np.diff(trace.at_ms) < 0))
    return replace(trace, session_relative_times=relative)


def select(trace: Trace, requests: Int64Array) -> Trace:
    """The requests with these indices, in this order; ids stay as they are."""
    lengths = np.diff(trace.offsets)[requests]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return replace(
        trace,
        at_ms=trace.at_ms[requests],
        input_tokens=trace.input_tokens[requests],
        output_tokens=trace.output_tokens[requests],
        session=trace.session[requests],
        offsets=offsets,
        block_ids=_gather(trace.offsets, trace.block_ids, requests, offsets),
    )


@njit(cache=True)
def _gather(
    offsets: Int64Array, ids: Int32Array, requests: Int64Array, new_offsets: Int64Array
) -> Int32Array:
    gathered = np.empty(new_offsets[-1], np.int32)
    for i in range(len(requests)):
        start, length = offsets[requests[i]], new_offsets[i + 1] - new_offsets[i]
        gathered[new_offsets[i] : new_offsets[i + 1]] = ids[start : start + length]
    return gathered
