"""Slow twins of our kernels and queries: the textbook version of each, obviously right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tierscope.analytics.chains import Chains
from tierscope.domain.events import BlockAction, BlockEvent
from tierscope.domain.requests import RequestRecord

Path = Sequence[int]


class NaiveLru:
    """Least recently used first in a list, the most recent last."""

    def __init__(self) -> None:
        self.recency: list[int] = []

    def depths(self, path: Path) -> list[int | None]:
        """How many distinct blocks are more recent than each block; None for one never seen."""
        place = {block: i for i, block in enumerate(self.recency)}
        newest = len(self.recency) - 1
        return [newest - place[block] if block in place else None for block in path]

    def touch(self, path: Path) -> None:
        """Leaf first, root last: the root becomes the most recent."""
        touched = set(path)
        self.recency = [block for block in self.recency if block not in touched] + list(reversed(path))


def request_depths(paths: Sequence[Path]) -> list[list[int | None]]:
    """Depths of each request's blocks, read for the whole request before anything is touched."""
    lru, found = NaiveLru(), []
    for path in paths:
        found.append(lru.depths(path))
        lru.touch(path)
    return found


def request_depths_of(chains: Chains) -> Iterator[list[int | None]]:
    """The same for whole traces: the list is an array of last touches, still one block at a time."""
    last_touch = np.full(chains.n_ids, -1, dtype=np.int64)
    now = 0
    for start, end in zip(chains.offsets[:-1], chains.offsets[1:], strict=True):
        path = chains.ids[start:end]
        touches = last_touch[path]
        yield [int(np.count_nonzero(last_touch > touch)) if touch >= 0 else None for touch in touches]
        last_touch[path[::-1]] = np.arange(now, now + len(path))
        now += len(path)


def leading_hits(depths: Sequence[int | None], capacity: int) -> int:
    """Blocks from the root on that an LRU of `capacity` blocks holds, up to the first that it does not."""
    hits = 0
    for depth in depths:
        if depth is None or depth >= capacity:
            break
        hits += 1
    return hits


def hits_by_replaying_a_cache(paths: Sequence[Path], capacity: int) -> list[int]:
    """The same by really evicting: a cache of `capacity` blocks, its least recent block dropped first."""
    cache: list[int] = []
    hits = []
    for path in paths:
        held = set(cache)
        hit = 0
        while hit < len(path) and path[hit] in held:
            hit += 1
        hits.append(hit)
        touched = set(path)
        cache = [block for block in cache if block not in touched] + list(reversed(path))
        cache = cache[len(cache) - capacity :] if len(cache) > capacity else cache
    return hits


def whole_chain(deltas: Mapping[int, tuple[int | None, int, Sequence[int]]], row_id: int) -> tuple[int, ...]:
    """A row's chain from rows of (parent id, common blocks, new hashes) by row id."""
    parent_id, common_blocks, new_hashes = deltas[row_id]
    start = whole_chain(deltas, parent_id)[:common_blocks] if parent_id is not None else ()
    return (*start, *new_hashes)


def block_tiers(record: RequestRecord) -> Iterator[str]:
    """The tier of each block: where its last token came from, tiers outward and computing last."""
    split = record.tokens
    origins = [name for name, tokens in split.as_dict().items() if name != "prompt" for _ in range(tokens)]
    for block in range(len(record.block_hashes)):
        yield origins[(block + 1) * record.block_tokens - 1]


def block_reuse(
    identified: Iterable[tuple[int, RequestRecord]],
) -> list[tuple[float, int, int, int | None, str, float | None]]:
    """(time, block, request, previous request, tier, interval) of each block of each served request."""
    last: dict[tuple[str, str, str, int], tuple[float, int]] = {}
    reuse = []
    served = [(record.admitted_unix_seconds, row, record) for row, record in identified if record.counts]
    for at, row, record in sorted(served, key=lambda found: found[:2]):
        for block, tier in zip(record.block_hashes, block_tiers(record), strict=True):
            key = (record.engine.namespace, record.engine.endpoint, record.model, block)
            before = last.get(key)
            interval = None if before is None else at - before[0]
            reuse.append((at, block, row, None if before is None else before[1], tier, interval))
            last[key] = (at, row)
    return reuse


def shared_prefixes(
    identified: Iterable[tuple[int, RequestRecord]],
) -> dict[int, tuple[int, int, int, int, int]]:
    """(blocks, requests, sessions, replicas, computed) of each prefix that several requests share to its end.

    For requests of one endpoint and model.
    """
    users: dict[int, list[tuple[RequestRecord, int]]] = {}
    following: dict[int, set[int]] = {}
    for _, record in identified:
        if not record.counts:
            continue
        for place, block in enumerate(record.block_hashes):
            users.setdefault(block, []).append((record, place))
            following.setdefault(block, set()).update(record.block_hashes[place + 1 : place + 2])
    found = {}
    for block, uses in users.items():
        if len(uses) < 2 or any(len(users[longer]) == len(uses) for longer in following[block]):
            continue
        computed = sum(list(block_tiers(record))[place] == "computed" for record, place in uses)
        sessions = {record.session_hash for record, _ in uses} - {None}
        replicas = {record.engine.replica for record, _ in uses}
        found[block] = (uses[0][1] + 1, len(uses), len(sessions), len(replicas), computed)
    return found


def regret(
    identified: Iterable[tuple[int, RequestRecord]], events: Iterable[BlockEvent]
) -> list[tuple[float, str, int, float, int, str]]:
    """(evicted, holder, block, wanted, request, served from) of each L0 block that its engine asks for again.

    Everything in the order of its time; at one time requests come before events.
    """
    happened: list[tuple[float, int, int, RequestRecord | BlockEvent]] = [
        (record.admitted_unix_seconds, 0, row, record) for row, record in identified if record.counts
    ]
    happened += [(event.at_unix_seconds, 1, 0, event) for event in events]
    gone: dict[tuple[str, int], float] = {}
    found = []
    for at, _, row, one in sorted(happened, key=lambda known: known[:3]):
        if isinstance(one, BlockEvent):
            for block in one.block_hashes:
                gone.pop((one.holder, block), None)
                if one.action is BlockAction.EVICTED:
                    gone[one.holder, block] = at
            continue
        for block, tier in zip(one.block_hashes, block_tiers(one), strict=True):
            evicted = gone.pop((str(one.engine), block), None)
            if evicted is not None and tier != "l0":
                found.append((evicted, str(one.engine), block, at, row, tier))
    return found


def hits_of_own_units(paths: Sequence[Path], holder_of: Sequence[int], capacity: int) -> list[int]:
    """L1 hits where each holder of `capacity` units keeps only what it was the first to be asked for."""
    caches: dict[int, list[int]] = {}
    owner: dict[int, int] = {}
    hits = []
    for path, holder in zip(paths, holder_of, strict=True):
        cache = caches.get(holder, [])
        held = set(cache)
        hit = 0
        while hit < len(path) and path[hit] in held:
            hit += 1
        hits.append(hit)
        keep = [unit for unit in path if owner.setdefault(unit, holder) == holder]
        cache = [unit for unit in cache if unit not in keep] + list(reversed(keep))
        caches[holder] = cache[len(cache) - capacity :] if len(cache) > capacity else cache
    return hits


def second_parents(paths: Sequence[Path]) -> list[int | None]:
    """Where each path first reaches a block from another block than before; such a path says no more."""
    parents: dict[int, int | None] = {}
    places: list[int | None] = []
    for path in paths:
        said = dict(parents)
        place = None
        for k, block in enumerate(path):
            before = path[k - 1] if k else None
            if said.setdefault(block, before) != before:
                place = k
                break
        places.append(place)
        parents = said if place is None else parents
    return places


def longest_in_order(times: Sequence[int]) -> int:
    """Most rows that can stay so that times never fall."""
    longest: list[int] = []
    for i, time in enumerate(times):
        longest.append(1 + max((longest[j] for j in range(i) if times[j] <= time), default=0))
    return max(longest, default=0)


def orphans(present: set[int], chains: list[list[int]]) -> tuple[int, set[int]]:
    """How many present blocks some chain names, and those of them that no chain reaches without a gap."""
    judged: set[int] = set()
    reached: set[int] = set()
    for chain in chains:
        whole = True
        for block in chain:
            if block in present:
                judged.add(block)
                if whole:
                    reached.add(block)
            else:
                whole = False
    return len(judged), judged - reached
