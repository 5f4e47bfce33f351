"""Block chains as arrays, and how 64-bit block hashes become the small numbers kernels work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace, UInt64Array

MOST_IDS = np.iinfo(np.int32).max
FIRST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class Chains:
    """n requests in order, each a path of blocks from a root of a prefix forest.

    Request i is `ids[offsets[i]:offsets[i + 1]]`; one id always has the same parent, so two paths that
    agree at a place agree everywhere before it. Shapes: `offsets` (n + 1,) int64, `ids` (accesses,)
    int32 below n_ids, each of which should occur: it costs memory.
    """

    offsets: Int64Array
    ids: Int32Array
    n_ids: int

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.offsets) - 1

    @property
    def accesses(self) -> int:
        """Number of block accesses."""
        return len(self.ids)


def chains_of(trace: Trace) -> Chains:
    """The chains of a trace; its ids are dense already."""
    n_ids = int(trace.block_ids.max()) + 1 if trace.accesses else 0
    return Chains(trace.offsets, trace.block_ids, n_ids)


def numbered(hashes: UInt64Array, offsets: Int64Array) -> Chains:
    """Number the hashes of chains in order of first appearance; a hash names all that is before it.

    Request i's chain is `hashes[offsets[i]:offsets[i + 1]]`, from a root on. Raises `BadInput` for more
    distinct hashes than int32 can number.
    """
    with np.errstate(over="ignore"):  # for interpreted runs: there numpy speaks of a product that wraps
        ids, n_ids = _number_in_order(np.ascontiguousarray(hashes), offsets)
    if n_ids < 0:
        raise BadInput(
            f"more than {MOST_IDS} distinct blocks",
            where="a window of requests",
            fix="ask for a shorter span of time",
        )
    return Chains(offsets, ids, n_ids)


class _Heads(NamedTuple):
    """Blocks at which a chain was seen to begin, or to leave another; a hash table, by linear probing.

    `request[s]` is a request through the block that slot s holds, -1 where it is free, and `block[s]` the
    block's hash. As a hash names all that is before it, a block stands at one place of every chain, so that
    is all it takes to find it. Shapes: (slots,), a power of two.
    """

    block: UInt64Array
    request: Int32Array


@njit(cache=True, nogil=True)
def _number_in_order(hashes: UInt64Array, offsets: Int64Array) -> tuple[Int32Array, int]:
    """Number hashes, a stretch at a time; at most half of the table's slots hold a block.

    Two chains that agree at a place agree before it, so each is held against an earlier one from the first
    block on, to where they part, and from there against another. What no earlier one has is new to its end:
    O(stretches x log length) hashes are looked at, of however many there are. This rests on the table holding
    each block but the only ones that ever came after theirs: of those, the request that the table has for the
    last head before them tells.
    """
    ids = np.empty(len(hashes), np.int32)
    heads = _free_heads(FIRST_SLOTS)
    held = 0
    n_ids = 0
    for request in range(len(offsets) - 1):
        place = int(np.int64(0))  # a plain 0 is a type of its own, for which every callee is compiled too
        start, length = offsets[request], offsets[request + 1] - offsets[request]
        while place < length:
            if 2 * (held + 2) > len(heads.request):
                heads = _doubled(heads)
            slot = _slot_of(heads, hashes[start + place])
            other = int(heads.request[slot])
            held += _hold(heads, slot, hashes[start + place], request)
            if other < 0:
                if n_ids + length - place > MOST_IDS:
                    return ids, -1
                _count_up(ids[start + place : start + length], n_ids)
                n_ids += length - place
                break
            agree = _agreeing(hashes, offsets, request, other, place)
            theirs = offsets[other]
            ids[start + place : start + agree] = ids[theirs + place : theirs + agree]
            place = agree
            if theirs + agree < offsets[other + 1]:
                block = hashes[theirs + agree]
                slot = _slot_of(heads, block)
                if heads.request[slot] < 0:
                    held += _hold(heads, slot, block, other)
    return ids, n_ids


@njit(cache=True)
def _free_heads(slots: int) -> _Heads:
    return _Heads(np.empty(slots, np.uint64), np.full(slots, -1, np.int32))


@njit(cache=True)
def _hold(heads: _Heads, slot: int, block: np.uint64, request: int) -> bool:
    """Put a block in its slot, or another request through it; whether it is held for the first time."""
    first = bool(heads.request[slot] < 0)
    heads.block[slot] = block
    heads.request[slot] = request
    return first


@njit(cache=True)
def _count_up(ids: Int32Array, number: int) -> None:
    for k in range(len(ids)):
        ids[k] = number + k


@njit(cache=True)
def _agreeing(hashes: UInt64Array, offsets: Int64Array, request: int, other: int, place: int) -> int:
    """First place after `place`, where two requests agree, at which they differ or one of them ends.

    Look at the end, as who goes on agrees to there; else gallop ahead, then halve.
    """
    mine, theirs = offsets[request], offsets[other]
    most = int(min(offsets[request + 1] - mine, offsets[other + 1] - theirs))
    if hashes[mine + most - 1] == hashes[theirs + most - 1]:
        return most
    agree = place
    step = 1
    while agree + step < most and hashes[mine + agree + step] == hashes[theirs + agree + step]:
        agree += step
        step *= 2
    differ = min(agree + step, most)
    while agree + 1 < differ:
        middle = (agree + differ) // 2
        if hashes[mine + middle] == hashes[theirs + middle]:
            agree = middle
        else:
            differ = middle
    return agree + 1


@njit(cache=True)
def _slot_of(heads: _Heads, block: np.uint64) -> int:
    """The slot that holds a block, or the free one where it belongs.

    The low bits of a hash are as good as random, but hashes that are small counters are not, so they
    are folded and multiplied by 2^64 / golden ratio (Fibonacci hashing: Knuth, TAOCP vol. 3, 6.4).
    """
    mask = len(heads.request) - 1
    mixed = (block ^ (block >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    slot = int(mixed >> np.uint64(32)) & mask
    while heads.request[slot] >= 0 and heads.block[slot] != block:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _doubled(heads: _Heads) -> _Heads:
    """The same full table with room for twice as many."""
    larger = _free_heads(2 * len(heads.request))
    for slot in range(len(heads.request)):
        if heads.request[slot] >= 0:
            _hold(larger, _slot_of(larger, heads.block[slot]), heads.block[slot], int(heads.request[slot]))
    return larger
