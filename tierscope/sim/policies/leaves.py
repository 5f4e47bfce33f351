"""A cache that drops leaves alone, the one of the smallest key first: what leaf-LFU and leaf-OPT share.

A block's parent is always resident when it is, so what is resident of any path is a prefix of it.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.traces.paths import Paths

Heap = list[tuple[np.int64, np.int64, np.int64]]
"""(key, block negated, version), smallest first; an entry counts while it is the block's newest."""


class Leaves(NamedTuple):
    """Resident blocks, how many resident children each has, and its key; (n_ids,) each.

    `needed[b]` is the last request that has b in its path: those blocks are not dropped while it is served.
    """

    present: NDArray[np.bool_]
    parent: Int32Array
    children: Int32Array
    version: Int32Array
    key: Int64Array
    needed: Int64Array


@njit(cache=True)
def no_leaves(paths: Paths) -> Leaves:
    """An empty cache over the blocks of some paths."""
    parent = np.full(paths.n_ids, -1, np.int32)
    for request in range(len(paths.offsets) - 1):
        for k in range(paths.offsets[request] + 1, paths.offsets[request + 1]):
            parent[paths.ids[k]] = paths.ids[k - 1]
    return Leaves(
        np.zeros(paths.n_ids, np.bool_),
        parent,
        np.zeros(paths.n_ids, np.int32),
        np.zeros(paths.n_ids, np.int32),
        np.zeros(paths.n_ids, np.int64),
        np.full(paths.n_ids, -1, np.int64),
    )


@njit(cache=True)
def no_offers() -> Heap:
    """A heap of no leaf: the compiler wants one entry to know its type, and this one is never a block's."""
    return [_entry(0, 0, -1)]


@njit(cache=True)
def _entry(key: int, negative: int, version: int) -> tuple[np.int64, np.int64, np.int64]:
    return (np.int64(key), np.int64(negative), np.int64(version))


@njit(cache=True)
def offer(leaves: Leaves, heap: Heap, block: int) -> None:
    """Let a leaf be dropped by its present key; nothing for a block with children."""
    if leaves.present[block] and leaves.children[block] == 0:
        leaves.version[block] += 1
        heapq.heappush(heap, _entry(leaves.key[block], -block, leaves.version[block]))


@njit(cache=True)
def insert(leaves: Leaves, block: int) -> None:
    """Make a block resident; its parent, if any, is no leaf any more."""
    leaves.present[block] = True
    if leaves.parent[block] >= 0:
        leaves.children[leaves.parent[block]] += 1


@njit(cache=True)
def drop_below(leaves: Leaves, heap: Heap, limit: int, request: int) -> bool:
    """Drop the leaf with the smallest key below `limit` that `request` does not need; False without one."""
    kept = no_offers()
    dropped = False
    while heap and not dropped:
        key, negative, version = heapq.heappop(heap)
        block = -negative
        if not leaves.present[block] or leaves.children[block] or leaves.version[block] != version:
            continue
        if leaves.needed[block] == request:
            kept.append((key, negative, version))
            continue
        if key >= limit:
            kept.append((key, negative, version))
            break
        leaves.present[block] = False
        dropped = True
        parent = leaves.parent[block]
        if parent >= 0:
            leaves.children[parent] -= 1
            offer(leaves, heap, parent)
    for i in range(1, len(kept)):
        heapq.heappush(heap, kept[i])
    return dropped
