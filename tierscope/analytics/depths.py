"""The chain kernels: LRU stack depths of whole runs of blocks at once.

Method. A request reads the depth of all its blocks first, then touches its path leaf first, root last.
So every block is at least as recent as its descendants, and the blocks that a request was the last
to touch are always a suffix of its path. A new path therefore splits into a few runs, each owned by one
earlier request, and a run's depths are consecutive numbers:

    depth of the run's first block = blocks owned by requests newer than the run's owner

which a Fenwick tree over requests, weighted by owned blocks, gives in O(log n). Blocks that this very
request already took from newer owners are counted back in: depth is as of the request's start.
Whoever takes over all that an earlier request owns becomes its heir, so only new blocks and those that two
paths part at are written. Cost: O(runs x log requests) and these; memory 4 B an id and 12 B a request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tierscope.analytics.stems import Stems
from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.traces.paths import Paths, run_end

BoolArray = NDArray[np.bool_]


@njit(cache=True)
def _add(tree: Int64Array, index: int, amount: int) -> None:
    i = index + 1
    while i < len(tree):
        tree[i] += amount
        i += i & -i


@njit(cache=True)
def _sum_to(tree: Int64Array, index: int) -> int:
    """Sum of entries 0..index."""
    total = 0
    i = index + 1
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


class Owners(NamedTuple):
    """Who touched each block last: the last heir of `label[b]` touched block b, -1 says that nobody did.

    Labels are requests. One that takes over all that another owns becomes its heir, and no label is written
    anew: a session's next prompt costs its new blocks, not its path. Shapes: `label` (n_ids,) int32, `heir`
    (n,) int32, its own heir being who has none.
    """

    label: Int32Array
    heir: Int32Array


def _nobodys(paths: Paths) -> Owners:
    return Owners(np.full(paths.n_ids, -1, np.int32), np.arange(paths.requests, dtype=np.int32))


def _empty_tree(paths: Paths) -> Int64Array:
    return np.zeros(paths.requests + 1, np.int64)


@njit(cache=True)
def _owner(owners: Owners, block: int) -> int:
    """The request that touched a block last, -1 before anyone has; halves the way of whoever asks next."""
    found = int(owners.label[block])
    if found < 0:
        return -1
    while owners.heir[found] != found:
        owners.heir[found] = owners.heir[owners.heir[found]]
        found = int(owners.heir[found])
    return found


@njit(cache=True)
def _take(paths: Paths, request: int, place: int, end: int, owner: int, owners: Owners) -> None:
    """Make a request the owner of the run from `place` to `end`, where it parts from the last one's path."""
    if end == paths.offsets[owner + 1] - paths.offsets[owner]:
        owners.heir[owner] = request
    else:
        _label(paths, request, place, end, owners)


@njit(cache=True)
def _label(paths: Paths, request: int, place: int, end: int, owners: Owners) -> None:
    start = paths.offsets[request]
    for k in range(start + place, start + end):
        owners.label[paths.ids[k]] = request


def depth_histogram(
    paths: Paths, block_weight: int, last_weights: Int64Array, first_counted: int
) -> tuple[Int64Array, int]:
    """Return weight at each depth, (distinct blocks,) int64, and the weight that was never seen before.

    Every block weighs `block_weight`, the last block of request i `last_weights[i]` (n,). Requests
    before `first_counted` touch, and are not counted.
    """
    change = np.zeros(paths.n_ids + 2, np.int64)
    scratch = _nobodys(paths), _empty_tree(paths)
    distinct, unseen = _count_depths(paths, block_weight, last_weights, first_counted, *scratch, change)
    return np.cumsum(change[:distinct]), int(unseen)


@njit(cache=True, nogil=True)
def _count_depths(
    paths: Paths,
    block_weight: int,
    last_weights: Int64Array,
    first_counted: int,
    owners: Owners,
    tree: Int64Array,
    change: Int64Array,
) -> tuple[int, int]:
    """Add to `change` (n_ids + 2,) by how much the weight of each depth exceeds that of the one before.

    Returns the number of distinct blocks and the weight never seen before.
    """
    n = len(paths.offsets) - 1
    unseen = 0
    distinct = 0
    resident = 0
    for request in range(n):
        start = paths.offsets[request]
        length = paths.offsets[request + 1] - start
        counted = request >= first_counted
        place = int(np.int64(0))  # a plain 0 is a type of its own, for which every callee is compiled too
        while place < length:
            owner = _owner(owners, paths.ids[start + place])
            if owner < 0:
                break
            end = run_end(paths, request, place, owner)
            if counted:
                depth = resident - _sum_to(tree, owner) + place
                change[depth] += block_weight
                change[depth + end - place] -= block_weight
                if end == length:
                    extra = last_weights[request] - block_weight
                    change[depth + end - place - 1] += extra
                    change[depth + end - place] -= extra
            _take(paths, request, place, end, owner, owners)
            _add(tree, owner, place - end)
            resident -= end - place
            place = end
        if counted and place < length:
            unseen += (length - place - 1) * block_weight + last_weights[request]
        distinct += length - place
        _label(paths, request, place, length, owners)
        _add(tree, request, length)
        resident += length
    return distinct, unseen


class Runs(NamedTuple):
    """Where the runs that requests' paths split into lie in the stack: all that any capacity can ask.

    The runs of the j-th request are `offsets[j]:offsets[j + 1]`: `depth` of the first block and `length`,
    (runs,) int32 each; `offsets` (m + 1,) int64. `fresh` (m,) int32 blocks had not been asked for before.
    """

    offsets: Int64Array
    depth: Int32Array
    length: Int32Array
    fresh: Int32Array


def stack_runs(stems: Stems, requests: Int64Array) -> Runs:
    """Put some requests (m,), ascending, through one LRU stack that nobody else touches."""
    offsets = np.zeros(len(requests) + 1, np.int64)
    fresh = np.zeros(len(requests), np.int32)
    owner, tree = np.full(len(stems.end), -1, np.int32), np.zeros(len(requests) + 1, np.int64)
    depth, length = _stack_runs(stems, requests, owner, tree, offsets, fresh)
    return Runs(offsets, depth, length, fresh)


@njit(cache=True, nogil=True)
def _stack_runs(
    stems: Stems,
    requests: Int64Array,
    owner: Int32Array,
    tree: Int64Array,
    offsets: Int64Array,
    fresh: Int32Array,
) -> tuple[Int32Array, Int32Array]:
    """Fill `offsets` and `fresh`; depths and lengths of the runs, a request's last one first.

    `owner` (stems,) is who touched a stem last, as a place among `requests`: what one request owns is never
    parted within a stem. From the leaf up, so that no earlier run is taken before a later one is counted.
    """
    depths = np.empty(2 * len(requests) + 1, np.int32)
    lengths = np.empty(len(depths), np.int32)
    runs = 0
    resident = 0
    for j in range(len(requests)):
        stem = stems.last[requests[j]]
        length = _end(stems, stem)
        end = length
        while stem >= 0:
            whose = owner[stem]
            while stem >= 0 and owner[stem] == whose:
                owner[stem] = j
                stem = stems.parent[stem]
            begin = _end(stems, stem)
            if whose < 0:
                fresh[j] = end - begin
            elif begin < end:
                if runs == len(depths):
                    depths, lengths = _longer(depths), _longer(lengths)
                depths[runs] = resident - _sum_to(tree, whose)
                lengths[runs] = end - begin
                runs += 1
                _add(tree, whose, begin - end)
                resident -= end - begin
            end = begin
        offsets[j + 1] = runs
        _add(tree, j, length)
        resident += length
    return depths[:runs].copy(), lengths[:runs].copy()


@njit(cache=True)
def _end(stems: Stems, stem: int) -> int:
    """Units from the root to the end of a stem, 0 where there is none."""
    return int(stems.end[stem]) if stem >= 0 else 0


@njit(cache=True)
def _longer(values: Int32Array) -> Int32Array:
    longer = np.empty(2 * len(values), np.int32)
    longer[: len(values)] = values
    return longer


@njit(cache=True)
def _add_hits(runs: Runs, j: int, capacities: Int64Array, hits: Int64Array) -> None:
    """Add the leading blocks of the j-th request that each capacity holds to `hits` (sizes,)."""
    for run in range(runs.offsets[j], runs.offsets[j + 1]):
        for c in range(len(capacities)):
            hits[c] += min(max(capacities[c] - runs.depth[run], 0), runs.length[run])


def hit_blocks(runs: Runs, capacities: Int64Array) -> Int32Array:
    """Leading blocks of each request that an LRU of each capacity holds at its start: (m, sizes) int32."""
    found = np.zeros((len(runs.fresh), len(capacities)), np.int32)
    _hit_blocks(runs, capacities, np.zeros(len(capacities), np.int64), found)
    return found


@njit(cache=True, nogil=True)
def _hit_blocks(runs: Runs, capacities: Int64Array, hits: Int64Array, found: Int32Array) -> None:
    """Fill `found` (m, sizes); `hits` (sizes,) is room to work in."""
    for j in range(len(found)):
        hits[:] = 0
        _add_hits(runs, j, capacities, hits)
        found[j] = hits


@njit(cache=True, nogil=True)
def hit_tokens(
    runs: Runs,
    requests: Int64Array,
    most_units: Int64Array,
    unit_tokens: int,
    capacities: Int64Array,
    tokens: Int64Array,
) -> None:
    """Put the tokens that each capacity holds of each request into its row of `tokens` (n, sizes).

    `most_units` (n,) are the most that it can be served; the j-th of `requests` (m,) has the j-th runs.
    """
    hits = np.zeros(len(capacities), np.int64)
    for j in range(len(requests)):
        hits[:] = 0
        _add_hits(runs, j, capacities, hits)
        for c in range(len(capacities)):
            tokens[requests[j], c] = min(hits[c], most_units[requests[j]]) * unit_tokens


class Served(NamedTuple):
    """What limits a tier's hits to tokens that count: (n,) int64 each, over all requests of a window.

    `leading` are the most units a request can be served, `most` the most tokens, and `base` the tokens that
    the tiers above serve.
    """

    leading: Int64Array
    most: Int64Array
    base: Int64Array


@njit(cache=True, nogil=True)
def add_served(
    runs: Runs,
    requests: Int64Array,
    unit_tokens: int,
    served: Served,
    capacities: Int64Array,
    cuts: Int64Array,
    sums: Int64Array,
) -> None:
    """Add the tokens that a tier and those above it serve, by stretch of requests and capacity.

    Stretch s has requests cuts[s]..cuts[s + 1] - 1; `sums` is (stretches, sizes). One request's hits at all
    sizes are held at a time, never those of all.
    """
    hits = np.zeros(len(capacities), np.int64)
    stretch = 0
    for j in range(len(requests)):
        request = requests[j]
        while stretch < len(sums) and request >= cuts[stretch + 1]:
            stretch += 1
        if stretch == len(sums):
            return
        if request < cuts[stretch]:
            continue
        hits[:] = 0
        _add_hits(runs, j, capacities, hits)
        for c in range(len(capacities)):
            tokens = min(hits[c], served.leading[request]) * unit_tokens
            sums[stretch, c] += max(min(tokens, served.most[request]), served.base[request])


def held_blocks(paths: Paths, touches: BoolArray, capacity: int) -> Int32Array:
    """Leading blocks of each request in an LRU that only the requests `touches` (n,) marks go through: (n,).

    The others merely look: what a replica would have had for a request that went elsewhere.
    """
    hits = np.zeros(paths.requests, np.int32)
    _held_blocks(paths, touches, capacity, _nobodys(paths), _empty_tree(paths), hits)
    return hits


@njit(cache=True)
def _held_blocks(
    paths: Paths, touches: BoolArray, capacity: int, owners: Owners, tree: Int64Array, hits: Int32Array
) -> None:
    n = len(paths.offsets) - 1
    resident = 0
    for request in range(n):
        start = paths.offsets[request]
        length = paths.offsets[request + 1] - start
        at_start = resident
        taken = 0
        place = int(np.int64(0))  # a plain 0 is a type of its own, for which every callee is compiled too
        while place < length:
            owner = _owner(owners, paths.ids[start + place])
            if owner < 0:
                break
            end = run_end(paths, request, place, owner)
            # Blocks this request took from newer owners count as they did when it came.
            depth = at_start - taken - _sum_to(tree, owner) + (place if touches[request] else 0)
            hits[request] += min(max(capacity - depth, 0), end - place)
            if touches[request]:
                _take(paths, request, place, end, owner, owners)
                _add(tree, owner, place - end)
                taken += end - place
            place = end
        if touches[request]:
            _label(paths, request, place, length, owners)
            _add(tree, request, length)
            resident += length - taken
