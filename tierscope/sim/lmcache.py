"""L1 and L2 as LMCache's server really keeps them, chunk by chunk.

L1 is a list in order of last touch for each replica, L2 one pool for all.

- A lookup asks for the prompt's whole chunks from its first one, touches what it finds, last chunk first, and
  brings up from L2 what L1 lacks. Without room in L1 for all of that, the chunks in L2 are misses.
- What was brought up is dropped after it was read, or kept in L1 (prefetch policy `retain`).
- Computed chunks are stored batch by batch, each whole or not at all. A batch that is refused for want of
  room is answered well and lost. What is stored goes on to L2.
- When a request ends, all of its prompt that L1 has is touched, last chunk first: what it computed goes
  before what it shares.
- Nothing but a loop makes room: once a second, where L1 is filled above a watermark, it drops a share of its
  chunks rounded down, one at least, those untouched longest.
- L2 never evicts. A full pool refuses; files go when they are older than their time to live, counted from
  their writing, at the next check.

All kernels take the same three: `Shelves` (what is where), `Rules` (sizes and habits), and a replica.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.traces.paths import Paths

NEVER_MS = 1 << 62
"""A time to live that does not end."""
TICK_MS = 1000
"""How often the eviction loop looks."""


class Rules(NamedTuple):
    """Sizes in chunks and habits of one L1 and of the pool; the defaults are LMCache's, a pool's none."""

    l1_chunks: int
    l2_chunks: int
    watermark_ratio: float = 0.8
    eviction_ratio: float = 0.2
    batch_chunks: int = 8
    """Chunks that an engine stores at once: one step of chunked prefill."""
    keeps_loads: bool = True
    l2_ttl_ms: int = NEVER_MS
    l2_check_ms: int = 300_000


class Shelves(NamedTuple):
    """What is in L1 and L2. Shapes: (replicas, chunks + 1) where not said otherwise.

    `newer` and `older` link an L1's chunks by last touch, the last entry being both ends of the list; `held`
    and `pins`, without that entry, mark what is in it and what lookups still use. `l1` (replicas, 3) holds
    resident chunks, staged chunks and the ticks that passed. `written_ms` (chunks,) is -1 for what is not in
    L2; `files` (chunks + 1,) is a ring of what is, oldest first; `l2` (3,) is its head, its length and the
    checks that passed.
    """

    newer: Int32Array
    older: Int32Array
    held: NDArray[np.bool_]
    pins: NDArray[np.int16]
    l1: Int64Array
    written_ms: Int64Array
    files: Int32Array
    l2: Int64Array


class Found(NamedTuple):
    """What a lookup found: leading chunks in L1 alone, in L1 and L2 together, and how many L2 hands up."""

    l1: int
    hit: int
    loaded: int


def empty_shelves(replicas: int, chunks: int) -> Shelves:
    """Empty tiers for ids below `chunks`."""
    ends = np.full((replicas, chunks + 1), chunks, np.int32)
    return Shelves(
        ends,
        ends.copy(),
        np.zeros((replicas, chunks), np.bool_),
        np.zeros((replicas, chunks), np.int16),
        np.zeros((replicas, 3), np.int64),
        np.full(chunks, -1, np.int64),
        np.zeros(chunks + 1, np.int32),
        np.zeros(3, np.int64),
    )


@njit(cache=True)
def leading_hits(
    paths: Paths, replica: Int32Array, at_ms: Int64Array, shelves: Shelves, rules: Rules
) -> tuple[Int32Array, Int32Array]:
    """Leading chunks of each request in L1, and in L1 and L2 together: (n,) int32 each.

    Requests are served one after the other, each looked up and stored at its time, by `replica` (n,).
    """
    n = len(paths.offsets) - 1
    l1 = np.zeros(n, np.int32)
    hit = np.zeros(n, np.int32)
    for request in range(n):
        chunks = paths.ids[paths.offsets[request] : paths.offsets[request + 1]]
        found = look_up(shelves, rules, replica[request], chunks, at_ms[request])
        release(shelves, rules, replica[request], chunks, found)
        store(shelves, rules, replica[request], chunks[found.hit :], at_ms[request])
        touch(shelves, replica[request], chunks)
        l1[request], hit[request] = found.l1, found.hit
    return l1, hit


@njit(cache=True)
def look_up(shelves: Shelves, rules: Rules, replica: int, chunks: Int32Array, at_ms: int) -> Found:
    """Find the leading chunks in L1 and L2, touch and pin those in L1, make room for those in L2."""
    tick(shelves, rules, replica, at_ms)
    held = shelves.held[replica]
    l1 = 0
    while l1 < len(chunks) and held[chunks[l1]]:
        l1 += 1
    hit = l1
    loaded = 0
    while hit < len(chunks) and (held[chunks[hit]] or shelves.written_ms[chunks[hit]] >= 0):
        loaded += not held[chunks[hit]]
        hit += 1
    if loaded > rules.l1_chunks - used(shelves, replica):
        hit, loaded = l1, 0
    for k in range(hit - 1, -1, -1):
        if held[chunks[k]]:
            _unlink(shelves, replica, chunks[k])
            _append(shelves, replica, chunks[k])
        shelves.pins[replica, chunks[k]] += 1
    shelves.l1[replica, 1] += loaded
    return Found(l1, hit, loaded)


@njit(cache=True)
def release(shelves: Shelves, rules: Rules, replica: int, chunks: Int32Array, found: Found) -> None:
    """End a lookup: what it brought up is dropped, or kept as if stored now."""
    shelves.l1[replica, 1] -= found.loaded
    for k in range(found.hit - 1, -1, -1):
        shelves.pins[replica, chunks[k]] -= 1
        if k >= found.l1 and found.loaded and rules.keeps_loads:
            _hold(shelves, replica, chunks[k])


@njit(cache=True)
def store(shelves: Shelves, rules: Rules, replica: int, chunks: Int32Array, at_ms: int) -> None:
    """Store chunks batch by batch; what L1 takes goes on to L2."""
    tick(shelves, rules, replica, at_ms)
    for start in range(0, len(chunks), rules.batch_chunks):
        batch = chunks[start : start + rules.batch_chunks]
        fresh = 0
        for chunk in batch:
            fresh += not shelves.held[replica, chunk]
        if fresh == 0 or fresh > rules.l1_chunks - used(shelves, replica):
            continue
        for chunk in batch:
            if not shelves.held[replica, chunk]:
                _write(shelves, rules, chunk, at_ms)
        for k in range(len(batch) - 1, -1, -1):
            _hold(shelves, replica, batch[k])


@njit(cache=True)
def touch(shelves: Shelves, replica: int, chunks: Int32Array) -> None:
    """End a request: touch all of its path that an L1 has, last chunk first."""
    for k in range(len(chunks) - 1, -1, -1):
        if shelves.held[replica, chunks[k]]:
            _unlink(shelves, replica, chunks[k])
            _append(shelves, replica, chunks[k])


@njit(cache=True)
def used(shelves: Shelves, replica: int) -> int:
    """Chunks that take room in an L1: the resident, and those on their way through from L2."""
    return int(shelves.l1[replica, 0] + shelves.l1[replica, 1])


@njit(cache=True)
def tick(shelves: Shelves, rules: Rules, replica: int, at_ms: int) -> None:
    """Catch up with the eviction loop of an L1 and with the checks of the pool."""
    due = at_ms // TICK_MS - shelves.l1[replica, 2]
    if due > 0:
        shelves.l1[replica, 2] += due
        watermark = rules.watermark_ratio * rules.l1_chunks
        while due > 0 and used(shelves, replica) >= watermark and _evict(shelves, rules, replica):
            due -= 1
    if rules.l2_ttl_ms != NEVER_MS and at_ms // rules.l2_check_ms != shelves.l2[2]:
        shelves.l2[2] = at_ms // rules.l2_check_ms
        _expire(shelves, shelves.l2[2] * rules.l2_check_ms - rules.l2_ttl_ms)


@njit(cache=True)
def _evict(shelves: Shelves, rules: Rules, replica: int) -> bool:
    """Drop a share of the chunks, those that no lookup uses, oldest touch first; False when none could go."""
    share = max(int(used(shelves, replica) * rules.eviction_ratio), 1)
    end = len(shelves.newer[replica]) - 1
    chunk = shelves.newer[replica, end]
    dropped = 0
    while chunk != end and dropped < share:
        following = shelves.newer[replica, chunk]
        if shelves.pins[replica, chunk] == 0:
            _unlink(shelves, replica, chunk)
            shelves.held[replica, chunk] = False
            shelves.l1[replica, 0] -= 1
            dropped += 1
        chunk = following
    return dropped > 0


@njit(cache=True)
def _expire(shelves: Shelves, oldest_ms: int) -> None:
    """Delete the files written before a time."""
    while shelves.l2[1] and shelves.written_ms[shelves.files[shelves.l2[0]]] < oldest_ms:
        shelves.written_ms[shelves.files[shelves.l2[0]]] = -1
        shelves.l2[0] = (shelves.l2[0] + 1) % len(shelves.files)
        shelves.l2[1] -= 1


@njit(cache=True)
def _write(shelves: Shelves, rules: Rules, chunk: int, at_ms: int) -> None:
    """Write a chunk to the pool, unless it is there or the pool is full."""
    if shelves.written_ms[chunk] >= 0 or shelves.l2[1] >= rules.l2_chunks:
        return
    shelves.written_ms[chunk] = at_ms
    shelves.files[(shelves.l2[0] + shelves.l2[1]) % len(shelves.files)] = chunk
    shelves.l2[1] += 1


@njit(cache=True)
def _hold(shelves: Shelves, replica: int, chunk: int) -> None:
    """Make a chunk the newest of an L1, if it is not there."""
    if not shelves.held[replica, chunk]:
        shelves.held[replica, chunk] = True
        shelves.l1[replica, 0] += 1
        _append(shelves, replica, chunk)


@njit(cache=True)
def _append(shelves: Shelves, replica: int, chunk: int) -> None:
    newer, older = shelves.newer[replica], shelves.older[replica]
    end = len(newer) - 1
    last = older[end]
    newer[last] = chunk
    older[chunk] = last
    newer[chunk] = end
    older[end] = chunk


@njit(cache=True)
def _unlink(shelves: Shelves, replica: int, chunk: int) -> None:
    newer, older = shelves.newer[replica], shelves.older[replica]
    newer[older[chunk]] = newer[chunk]
    older[newer[chunk]] = older[chunk]
