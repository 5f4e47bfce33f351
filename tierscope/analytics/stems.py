"""Chains as the stretches between the places where they part: all that kernels need to know of the blocks.

Chains that begin alike form a forest, and in it whatever lies between two places where chains part or end is
asked for by the same requests, always together. There are at most two such stems a request, however long
prompts are, so a pass over stems neither reads nor writes a number for every block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, UInt64Array

MOST_BLOCKS = np.iinfo(np.int32).max
FIRST_SLOTS = 1024
FIRST_STEMS = 1024
NO_STEM = -1


class Stems(NamedTuple):
    """n requests, request i's chain ending with stem `last[i]`; stems go from a root of the forest on.

    `parent[s]` is the stem before s, -1 at a root, and units from the root to the end of s are `end[s]`; a
    stem may have no units of its own. The block at place p of a chain, in s, is the `number[s] + p`-th that
    was ever asked for. Shapes: `last` (n,), all others (stems,), int32.
    """

    last: Int32Array
    parent: Int32Array
    end: Int32Array
    number: Int32Array

    def in_chunks(self, per_chunk: int) -> Stems:
        """The same chains in whole chunks of so many blocks: a chunk lies where its last block does."""
        return self if per_chunk == 1 else self._replace(end=self.end // np.int32(per_chunk))


def stems_of(hashes: UInt64Array, offsets: Int64Array) -> Stems:
    """Find where chains part; a hash names all that is before it.

    Request i's chain is `hashes[offsets[i]:offsets[i + 1]]`, from a root on. Raises `BadInput` for more
    distinct hashes than int32 can number.
    """
    with np.errstate(over="ignore"):  # for interpreted runs: there numpy speaks of a product that wraps
        stems, made = _part(np.ascontiguousarray(hashes), offsets)
    if made < 0:
        raise BadInput(
            f"more than {MOST_BLOCKS} distinct blocks",
            where="a window of requests",
            fix="ask for a shorter span of time",
        )
    return Stems(stems.last, stems.parent[:made], stems.end[:made], stems.number[:made])


def only_own(stems: Stems, whose: Int32Array) -> tuple[Stems, Int64Array]:
    """The chains without what another was the first to ask for: request i is of `whose[i]` (n,).

    Also the units of each whole chain before the first that is missing: (n,).
    """
    parent, end = np.empty_like(stems.parent), np.empty_like(stems.end)
    last, leading = np.empty_like(stems.last), np.zeros(len(stems.last), np.int64)
    first = np.full(len(stems.end), -1, np.int32)
    _keep_own(stems, whose, first, Stems(last, parent, end, stems.number), leading)
    return Stems(last, parent, end, stems.number), leading


@njit(cache=True)
def _keep_own(stems: Stems, whose: Int32Array, first: Int32Array, own: Stems, leading: Int64Array) -> None:
    """Fill `own` and `leading`; `first` (stems,) is who asked for a stem first, -1 while nobody has."""
    for request in range(len(stems.last)):
        stem = stems.last[request]
        while stem >= 0 and first[stem] < 0:
            first[stem] = whose[request]
            stem = stems.parent[stem]
    for stem in range(len(stems.end)):
        own.parent[stem] = _nearest(stems, first, stems.parent[stem], first[stem])
    for stem in range(len(stems.end)):
        units, at = 0, stem
        while at >= 0:
            above = stems.parent[at]
            units += stems.end[at] - (stems.end[above] if above >= 0 else 0)
            at = own.parent[at]
        own.end[stem] = units
    for request in range(len(stems.last)):
        own.last[request] = _nearest(stems, first, stems.last[request], whose[request])
        stem = stems.last[request]
        reached = stems.end[stem] if stem >= 0 else 0
        while stem >= 0:
            above = stems.parent[stem]
            begin = stems.end[above] if above >= 0 else 0
            if first[stem] != whose[request] and begin < stems.end[stem]:
                reached = begin
            stem = above
        leading[request] = reached


@njit(cache=True)
def _nearest(stems: Stems, first: Int32Array, stem: int, whose: int) -> int:
    """The last stem of a chain, going up from one, that someone asked for first; -1 where there is none."""
    while stem >= 0 and first[stem] != whose:
        stem = stems.parent[stem]
    return int(stem)


class _Heads(NamedTuple):
    """Blocks at which a chain was seen to begin, or to leave another; a hash table, by linear probing.

    `request[s]` is a request through the block that slot s holds, -1 where it is free, and `block[s]` the
    block's hash. As a hash names all that is before it, a block stands at one place of every chain, so that
    is all it takes to find it. Shapes: (slots,), a power of two.
    """

    block: UInt64Array
    request: Int32Array


@njit(cache=True, nogil=True)
def _part(hashes: UInt64Array, offsets: Int64Array) -> tuple[Stems, int]:
    """Part chains into stems, and how many these are. At most half of the table's slots hold a block.

    Two chains that agree at a place agree before it, so each is held against an earlier one from the first
    block on, to where they part, and from there against another. What no earlier one has is new to its end:
    O(stretches x log length) hashes are looked at, of however many there are. This rests on the table holding
    each block but the only ones that ever came after theirs: of those, the request that the table has for the
    last head before them tells.
    """
    n = len(offsets) - 1
    heads, stems = _free_heads(FIRST_SLOTS), _no_stems(n)
    held = 0
    made = 0
    distinct = 0
    for request in range(n):
        place = int(np.int64(0))  # a plain 0 is a type of its own, for which every callee is compiled too
        start, length = offsets[request], offsets[request + 1] - offsets[request]
        while place < length:
            if 2 * (held + 2) > len(heads.request):
                heads = _doubled(heads)
            if made == len(stems.end):
                stems = _longer(stems)
            slot = _slot_of(heads, hashes[start + place])
            other = int(heads.request[slot])
            held += _hold(heads, slot, hashes[start + place], request)
            if other < 0:
                if distinct + length - place > MOST_BLOCKS:
                    return stems, -1
                _add(stems, made, int(stems.last[request]), length, distinct - place)
                stems.last[request] = made
                made += 1
                distinct += length - place
                break
            agree = _agreeing(hashes, offsets, request, other, place)
            stem, parted = _stem_to(stems, made, other, agree)
            stems.last[request] = stem
            made += parted
            place = agree
            theirs = offsets[other]
            if theirs + agree < offsets[other + 1]:
                block = hashes[theirs + agree]
                slot = _slot_of(heads, block)
                if heads.request[slot] < 0:
                    held += _hold(heads, slot, block, other)
    return stems, made


@njit(cache=True)
def _no_stems(requests: int) -> Stems:
    last = np.full(requests, NO_STEM, np.int32)
    return Stems(
        last,
        np.empty(FIRST_STEMS, np.int32),
        np.empty(FIRST_STEMS, np.int32),
        np.empty(FIRST_STEMS, np.int32),
    )


@njit(cache=True)
def _longer(stems: Stems) -> Stems:
    """The same stems with room for twice as many."""
    return Stems(stems.last, _twice(stems.parent), _twice(stems.end), _twice(stems.number))


@njit(cache=True)
def _twice(values: Int32Array) -> Int32Array:
    twice = np.empty(2 * len(values), np.int32)
    twice[: len(values)] = values
    return twice


@njit(cache=True)
def _add(stems: Stems, stem: int, parent: int, end: int, number: int) -> None:
    stems.parent[stem] = parent
    stems.end[stem] = end
    stems.number[stem] = number


@njit(cache=True)
def _stem_to(stems: Stems, made: int, other: int, place: int) -> tuple[int, bool]:
    """The stem of a request's chain that ends at `place`, above 0, and whether one was parted there.

    The upper part is a new stem: chains that go to the end of the old one still end with it.
    """
    stem = int(stems.last[other])
    above = int(stems.parent[stem])
    while above >= 0 and stems.end[above] >= place:
        stem, above = above, int(stems.parent[above])
    if stems.end[stem] == place:
        return stem, False
    _add(stems, made, above, place, stems.number[stem])
    stems.parent[stem] = made
    return made, True


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
