"""L0 while requests run: an engine's block memory, where running requests pin what they use.

A block is pinned while a running request refers to it. When the last one ends, the block keeps its content
and waits in a list, its path's last block first, until its memory is needed. Blocks without a name (a
prompt's partial last block, what decoding fills) are counted, and are free again when their request ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int32Array, Int64Array

IDLE, PINNED, NAMELESS = 0, 1, 2


class Memory(NamedTuple):
    """Block memories of several engines, (replicas, blocks) each where not said otherwise.

    `references` counts the running requests of a block, and `there` tells whether it can be hit. `newer` and
    `older`, with one entry more that is both ends, link the idle ones by when they became idle. `counts`
    (replicas, 3): idle, pinned and nameless blocks. `capacity_blocks` is one engine's.
    """

    references: NDArray[np.int16]
    there: NDArray[np.bool_]
    newer: Int32Array
    older: Int32Array
    counts: Int64Array
    capacity_blocks: int


def empty_memory(replicas: int, blocks: int, capacity_blocks: int) -> Memory:
    """Memories without any content, for ids below `blocks`."""
    ends = np.full((replicas, blocks + 1), blocks, np.int32)
    return Memory(
        np.zeros((replicas, blocks), np.int16),
        np.zeros((replicas, blocks), np.bool_),
        ends,
        ends.copy(),
        np.zeros((replicas, 3), np.int64),
        capacity_blocks,
    )


@njit(cache=True)
def leading(memory: Memory, replica: int, path: Int32Array, most: int) -> int:
    """How many of the first `most` blocks of a path can be hit."""
    there = memory.there[replica]
    hit = 0
    while hit < most and there[path[hit]]:
        hit += 1
    return hit


@njit(cache=True)
def pin(memory: Memory, replica: int, path: Int32Array, nameless: int) -> bool:
    """Pin a path and some blocks without a name; False, and nothing done, without room for them."""
    counts = memory.counts[replica]
    fresh = nameless
    for block in path:
        fresh += memory.references[replica, block] == 0
    if counts[PINNED] + counts[NAMELESS] + fresh > memory.capacity_blocks:
        return False
    for block in path:
        if memory.references[replica, block] == 0:
            if memory.there[replica, block]:
                _unlink(memory, replica, block)
                counts[IDLE] -= 1
            memory.there[replica, block] = True
            counts[PINNED] += 1
        memory.references[replica, block] += 1
    counts[NAMELESS] += nameless
    _make_room(memory, replica)
    return True


@njit(cache=True)
def grow(memory: Memory, replica: int, blocks: int) -> bool:
    """Give a running request more blocks without a name; False, and nothing done, without room."""
    counts = memory.counts[replica]
    if counts[PINNED] + counts[NAMELESS] + blocks > memory.capacity_blocks:
        return False
    counts[NAMELESS] += blocks
    _make_room(memory, replica)
    return True


@njit(cache=True)
def unpin(memory: Memory, replica: int, path: Int32Array, named: int, nameless: int) -> None:
    """End a request that pinned the first `named` blocks of a path.

    Those after them are what its answer filled: from now on they can be hit too.
    """
    counts = memory.counts[replica]
    counts[NAMELESS] -= nameless
    for k in range(len(path) - 1, -1, -1):
        block = path[k]
        if k < named:
            memory.references[replica, block] -= 1
            counts[PINNED] -= memory.references[replica, block] == 0
        elif memory.there[replica, block] and memory.references[replica, block] == 0:
            _unlink(memory, replica, block)
            counts[IDLE] -= 1
        if memory.references[replica, block] == 0:
            memory.there[replica, block] = True
            _append(memory, replica, block)
            counts[IDLE] += 1
    _make_room(memory, replica)


@njit(cache=True)
def _make_room(memory: Memory, replica: int) -> None:
    """Forget what was idle longest until everything fits."""
    counts = memory.counts[replica]
    end = memory.newer.shape[1] - 1
    while counts[IDLE] and counts[IDLE] + counts[PINNED] + counts[NAMELESS] > memory.capacity_blocks:
        block = memory.newer[replica, end]
        _unlink(memory, replica, block)
        memory.there[replica, block] = False
        counts[IDLE] -= 1


@njit(cache=True)
def _append(memory: Memory, replica: int, block: int) -> None:
    newer, older = memory.newer[replica], memory.older[replica]
    end = len(newer) - 1
    last = older[end]
    newer[last] = block
    older[block] = last
    newer[block] = end
    older[end] = block


@njit(cache=True)
def _unlink(memory: Memory, replica: int, block: int) -> None:
    newer, older = memory.newer[replica], memory.older[replica]
    newer[older[block]] = newer[block]
    older[newer[block]] = older[block]
