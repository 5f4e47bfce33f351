"""A trace as simulators take it: each request's path of whole blocks or chunks, and what it leaves behind."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace
from tierscope.traces.forest import dense
from tierscope.traces.paths import Paths


def block_paths(trace: Trace) -> Paths:
    """Whole blocks of each prompt; a partial last block is never cached."""
    whole = np.minimum(trace.input_tokens // trace.block_tokens, np.diff(trace.offsets))
    return _every(trace.offsets, trace.block_ids, whole, 1)


def chunk_paths(blocks: Paths, per_chunk: int) -> Paths:
    """Whole chunks of `per_chunk` blocks, each named by its last block, which names its whole prefix."""
    if per_chunk < 1:
        raise BadInput(
            f"a chunk of {per_chunk} blocks", where="chunk_paths", fix="give chunks of one block or more"
        )
    if per_chunk == 1:
        return blocks
    return _every(blocks.offsets, blocks.ids, blocks.lengths // per_chunk, per_chunk)


def blocks_a_chunk(chunk_tokens: int, block_tokens: int) -> int:
    """Blocks of a chunk: its tokens rounded up to whole blocks, as cache servers do."""
    return -(-chunk_tokens // block_tokens)


def with_answers(blocks: Paths, trace: Trace) -> Paths:
    """Paths as they are when their answers are written: the prompt's blocks and those that decoding filled.

    A trace does not say what an answer's blocks are called until they come back in the same session's next
    prompt: where that prompt begins with all of this one, its next blocks are taken for the answer's. Those
    that nobody asks for again get names of their own, for they take room like any other. An engine caches
    all but the last token of an answer.
    """
    full_blocks = (trace.input_tokens + trace.output_tokens - 1) // trace.block_tokens
    source, known = _answered(blocks, trace.session, full_blocks)
    lengths = np.maximum(known, full_blocks)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    ids = _copied(blocks, source, known, offsets)
    unknown = _beyond(known, offsets)
    ids[unknown] = blocks.n_ids + np.arange(np.count_nonzero(unknown))
    return Paths(offsets, ids, blocks.n_ids + int((lengths - known).sum()))


def only(paths: Paths, requests: Int64Array) -> Paths:
    """The paths of some requests, in that order and with the same ids."""
    lengths = paths.lengths[requests]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return Paths(offsets, _copied(paths, requests, lengths, offsets), paths.n_ids)


def _every(offsets: Int64Array, ids: Int32Array, lengths: Int64Array, step: int) -> Paths:
    """Every `step`-th id of each path, `lengths` (n,) of them, numbered densely."""
    new_offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    numbered, n_ids = dense(_stepped(offsets, ids, new_offsets, step))
    return Paths(new_offsets, numbered, n_ids)


@njit(cache=True)
def _stepped(offsets: Int64Array, ids: Int32Array, new_offsets: Int64Array, step: int) -> Int32Array:
    taken = np.empty(new_offsets[-1], np.int32)
    for i in range(len(offsets) - 1):
        at = offsets[i] + step - 1
        for k in range(new_offsets[i], new_offsets[i + 1]):
            taken[k] = ids[at]
            at += step
    return taken


@njit(cache=True)
def _copied(paths: Paths, source: Int64Array, lengths: Int64Array, offsets: Int64Array) -> Int32Array:
    """Paths at their `offsets` (n + 1,), of whose places the first `lengths` (n,) are those of `source`."""
    ids = np.empty(offsets[-1], np.int32)
    for i in range(len(source)):
        start = paths.offsets[source[i]]
        ids[offsets[i] : offsets[i] + lengths[i]] = paths.ids[start : start + lengths[i]]
    return ids


def _beyond(lengths: Int64Array, offsets: Int64Array) -> NDArray[np.bool_]:
    """Marks of the places of each path after its first `lengths` (n,) ones."""
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return within >= np.repeat(lengths, np.diff(offsets))


@njit(cache=True)
def _answered(paths: Paths, session: Int32Array, full_blocks: Int64Array) -> tuple[Int64Array, Int64Array]:
    """For each request, whose path names its blocks once it is answered, and how many it names: (n,) each."""
    n = len(paths.offsets) - 1
    source = np.arange(n)
    lengths = paths.offsets[1:] - paths.offsets[:-1]
    following = np.full(max(session.max() + 1, 1) if n else 1, -1, np.int64)
    for i in range(n - 1, -1, -1):
        if session[i] < 0:
            continue
        after = following[session[i]]
        following[session[i]] = i
        own = paths.offsets[i + 1] - paths.offsets[i]
        if after < 0 or paths.offsets[after + 1] - paths.offsets[after] <= own:
            continue
        # The forest rule: paths that agree at a place agree everywhere before it.
        last = own - 1
        if own and paths.ids[paths.offsets[after] + last] != paths.ids[paths.offsets[i] + last]:
            continue
        source[i] = after
        lengths[i] = max(own, min(full_blocks[i], paths.offsets[after + 1] - paths.offsets[after]))
    return source, lengths
