"""From raw rows to a `Trace`: every rule of a trace is checked here, and a broken one names its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace

Mask = NDArray[np.bool_]


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
    ids: Int64Array

    @property
    def has_sessions(self) -> bool:
        """Whether any request says which session it belongs to."""
        return bool(np.any(self.session >= 0))


class Rule(NamedTuple):
    """One thing that must hold of every row: which rows break it, in what field, and how to mend it."""

    broken: Mask
    field: str
    what: str
    fix: str


def trace_of(
    rows: Rows, *, name: str, unit: str, block_tokens: int, skip_bad: bool, skipped: int = 0
) -> Trace:
    """Check rows and make a trace of them; `unit` is what the file calls a row.

    The first row that breaks a rule raises `BadInput`; with `skip_bad` such rows are left out and
    counted on top of the `skipped` ones.
    """
    ids, n_ids = _dense(rows.ids)
    bad = np.zeros(len(rows.numbers), dtype=np.bool_)
    for rule in _rules(rows, ids, n_ids, block_tokens, bad):
        broken = rule.broken & ~bad
        if broken.any() and not skip_bad:
            number = int(rows.numbers[np.argmax(broken)])
            raise BadInput(
                rule.what,
                where=f"{name}, {unit} {number}, field {rule.field}",
                fix=f"{rule.fix}, or --skip-bad",
            )
        bad |= broken
    trace = _trace(rows, ids, name=name, block_tokens=block_tokens, skipped=skipped + int(bad.sum()))
    return select(trace, np.flatnonzero(~bad)) if bad.any() else trace


def _rules(rows: Rows, ids: Int32Array, n_ids: int, block_tokens: int, bad: Mask) -> Iterator[Rule]:
    """Yield the rules; `bad` holds the rows that broke an earlier one by the time a rule is asked for."""
    counts = np.diff(rows.offsets)
    yield Rule(rows.at_ms < 0, "timestamp", "a negative timestamp", "give milliseconds from the start")
    yield Rule(rows.input_tokens < 1, "input_length", "a prompt of no tokens", "give its length in tokens")
    yield Rule(rows.output_tokens < 0, "output_length", "a negative length", "give its length in tokens")
    whole = rows.input_tokens // block_tokens
    yield Rule(
        (counts < whole) | (counts > -(-rows.input_tokens // block_tokens)),
        "hash_ids",
        f"the number of blocks does not fit the prompt's length in blocks of {block_tokens} tokens",
        "name the trace's block size with --block-tokens",
    )
    yield Rule(_runs_backwards(rows, bad), "timestamp", "time runs backwards", "sort the trace by time")
    yield Rule(
        _other_parent(rows.offsets, ids, n_ids, bad),
        "hash_ids",
        "a block follows another block than it did before, so its id does not name a prefix",
        "number blocks by their whole prefix",
    )


def _runs_backwards(rows: Rows, bad: Mask) -> Mask:
    """Rows earlier than one before them: in the file, or in their session where there are sessions."""
    key = rows.session if rows.has_sessions else np.zeros_like(rows.session)
    at_ms = np.where(bad, np.int64(-1), rows.at_ms)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=key[order][:1] - 1))
    latest = np.empty_like(at_ms)
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        latest[order[start:end]] = np.maximum.accumulate(at_ms[order[start:end]])
    return np.asarray(rows.at_ms < latest)


@njit(cache=True)
def _other_parent(offsets: Int64Array, ids: Int32Array, n_ids: int, bad: Mask) -> Mask:
    """Requests with a block that an earlier request reached from another block; `bad` ones do not count."""
    parents = np.full(n_ids, -2, np.int32)
    broken = np.zeros(len(offsets) - 1, np.bool_)
    for request in range(len(offsets) - 1):
        if bad[request]:
            continue
        before = np.int32(-1)
        for k in range(offsets[request], offsets[request + 1]):
            if parents[ids[k]] != -2 and parents[ids[k]] != before:
                broken[request] = True
                break
            before = ids[k]
        if broken[request]:
            continue
        before = np.int32(-1)
        for k in range(offsets[request], offsets[request + 1]):
            parents[ids[k]] = before
            before = ids[k]
    return broken


def _dense(ids: Int64Array) -> tuple[Int32Array, int]:
    """Number the distinct ids 0, 1, 2, … by ascending id."""
    if len(ids) and int(ids.min()) >= 0 and int(ids.max()) < 4 * len(ids):
        present = np.zeros(int(ids.max()) + 1, dtype=np.bool_)
        present[ids] = True
        number = np.cumsum(present, dtype=np.int32) - 1
        return number.astype(np.int32)[ids], int(present.sum())
    distinct, numbers = np.unique(ids, return_inverse=True)
    return numbers.astype(np.int32), len(distinct)


def _trace(rows: Rows, ids: Int32Array, *, name: str, block_tokens: int, skipped: int) -> Trace:
    return Trace(
        name=name,
        block_tokens=block_tokens,
        at_ms=rows.at_ms,
        input_tokens=rows.input_tokens,
        output_tokens=rows.output_tokens,
        session=rows.session.astype(np.int32),
        offsets=rows.offsets,
        block_ids=ids,
        skipped_lines=skipped,
        session_relative_times=rows.has_sessions and bool(np.any(np.diff(rows.at_ms) < 0)),
    )


def select(trace: Trace, requests: Int64Array) -> Trace:
    """The requests with these indices, in this order; ids stay as they are."""
    lengths = np.diff(trace.offsets)[requests]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return Trace(
        name=trace.name,
        block_tokens=trace.block_tokens,
        at_ms=trace.at_ms[requests],
        input_tokens=trace.input_tokens[requests],
        output_tokens=trace.output_tokens[requests],
        session=trace.session[requests],
        offsets=offsets,
        block_ids=_gather(trace.offsets, trace.block_ids, requests, offsets),
        skipped_lines=trace.skipped_lines,
        session_relative_times=trace.session_relative_times,
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
