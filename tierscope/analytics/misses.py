"""Why prompt tokens were computed although a cache is there: causes that exclude each other and add up.

What was computed of a prompt is its end, from the first token that no tier served. Each cause owns a stretch
of it, because everything a tier holds of a path is a beginning of it. From the served part on:

- *failure* and *expiry*: a tier of this replica should still have it, by its size. Older than the pool's
  time to live it expired; else it was refused, lost or could not be loaded.
- *isolation*: the pool should have it under the name that another replica's cache server gave it, and the
  two servers are known to name chunks differently.
- *routing*: not here, but another replica's L0 or L1 should have it.
- *capacity*: it was there once; more room in a tier would have kept it, and how much more is told. A tier
  that frees room in rounds is sure of no more than a round leaves.
- *granularity*: known, but only as a part of a chunk; and the prompt's last tokens, which no block holds
  whole.
- *isolation* again: never seen under this name, although the same session's prompts said it to another
  replica, and the two engines have not one first block's name in common: another hash seed.
- *compulsory*: never seen.

Where a tier should have it is what LRU models say; a tier that does not behave like one shows as failure.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tierscope.analytics.attribution import Holder, JointStreams, Stream, joint_streams
from tierscope.analytics.chains import Chains, chunked, numbered
from tierscope.analytics.curve import hit_blocks_per_request
from tierscope.analytics.depths import BoolArray, held_blocks
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.domain.window import RequestWindow
from tierscope.traces.paths import Paths

GROWTH = (1.25, 1.5, 2.0, 4.0, 8.0, 16.0)
"""Sizes at which a tier is asked whether it would have hit, as multiples of today's; then without limit."""


class Cause(StrEnum):
    """Why a token was computed."""

    COMPULSORY = "compulsory"
    CAPACITY_L0 = "capacity_l0"
    CAPACITY_L1 = "capacity_l1"
    CAPACITY_L2 = "capacity_l2"
    ROUTING = "routing"
    ISOLATION = "isolation"
    GRANULARITY = "granularity"
    FAILURE = "failure"
    EXPIRY = "expiry"


CAPACITY = {Tier.L0: Cause.CAPACITY_L0, Tier.L1: Cause.CAPACITY_L1, Tier.L2: Cause.CAPACITY_L2}


class Room(NamedTuple):
    """Tokens that a tier would have hit with so many bytes more in each holder, and not with fewer."""

    tier: Tier
    extra_bytes: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Misses:
    """Computed tokens of n requests by cause: (n,) int64 each, adding up to what was computed.

    `room` lists what more capacity would have served, cheapest step first.
    """

    tokens: Mapping[Cause, Int64Array]
    room: tuple[Room, ...]

    def totals(self) -> dict[Cause, int]:
        """Tokens by cause, summed over the requests."""
        return {cause: int(tokens.sum()) for cause, tokens in self.tokens.items()}

    def costs(self, seconds_per_token: float, money_per_second: float) -> dict[Cause, tuple[float, float]]:
        """Seconds and money that each cause cost, at a price of computing a token and of a second."""
        return {
            cause: (tokens * seconds_per_token, tokens * seconds_per_token * money_per_second)
            for cause, tokens in self.totals().items()
        }


@dataclass(frozen=True, slots=True)
class TierUnits:
    """Blocks (L0) or chunks (L1, L2) that one holder of each tier holds; a tier that is absent has none.

    `least` are what a tier holds at any time, where that is less: a server that frees room in rounds has
    just dropped a share of its chunks.
    """

    units: Mapping[Tier, int]
    bytes_per_token: float
    l2_ttl_seconds: float | None = None
    least: Mapping[Tier, int] = field(default_factory=dict)

    def at_least(self, tier: Tier) -> int:
        """Units that a tier holds at any time; 0 where there is no such tier."""
        units = self.units.get(tier, 0)
        return min(self.least.get(tier, units), units)


def miss_causes(
    window: RequestWindow,
    chunk_tokens: int,
    sizes: TierUnits,
    *,
    first: int = 0,
    named_by: Sequence[int] | None = None,
) -> Misses:
    """Give each computed token of a window its cause.

    Of the requests before `first` only `room` is not told: they fill the modelled tiers. `named_by`
    (engines,) numbers the engines whose cache servers name chunks in one way; None: all do.
    """
    streams = joint_streams(window, chunk_tokens, named_by)
    reach = _Reach(window, streams, sizes)
    cuts = _Cuts(window.prompt - window.computed, window.prompt, first)
    held, young = reach.here(), reach.young()
    cuts.up_to(np.minimum(held, young), Cause.FAILURE)
    cuts.up_to(held, Cause.EXPIRY)
    cuts.up_to(reach.under_other_names(), Cause.ISOLATION)
    cuts.up_to(reach.elsewhere(), Cause.ROUTING)
    known = reach.known()
    room = tuple(
        Room(tier, extra, cuts.up_to(np.minimum(tokens, known), CAPACITY[tier]))
        for extra, tier, tokens in reach.with_more_room()
    )
    cuts.up_to(known, Cause.GRANULARITY)
    cuts.up_to(np.minimum(reach.said_elsewhere(), reach.whole()), Cause.ISOLATION)
    cuts.up_to(reach.whole(), Cause.COMPULSORY)
    cuts.up_to(window.prompt, Cause.GRANULARITY)
    return Misses(cuts.tokens, tuple(row for row in room if row.tokens))


class _Cuts:
    """Prompts being cut from their served part to their end, piece by piece."""

    def __init__(self, served: Int64Array, prompt: Int64Array, first: int) -> None:
        self._first = first
        self.tokens = {cause: np.zeros_like(prompt) for cause in Cause}
        self._at = served.copy()
        self._prompt = prompt

    def up_to(self, end: Int64Array, cause: Cause) -> int:
        """Give what lies before `end` (n,) tokens and has no cause yet this one.

        Returns how much that was from the first request on.
        """
        reached = np.maximum(self._at, np.minimum(end, self._prompt))
        given = reached - self._at
        self.tokens[cause] += given
        self._at = reached
        return int(given[self._first :].sum())


class _Reach:
    """How far into each prompt, in tokens (n,), something reaches."""

    def __init__(self, window: RequestWindow, streams: JointStreams, sizes: TierUnits) -> None:
        self._window, self._sizes = window, sizes
        self._streams = {Tier.L0: streams.l0, Tier.L1: streams.l1, Tier.L2: streams.l2}
        self._named_alike = streams.l2_named_alike
        self._most = np.maximum(window.prompt - 1, 0)

    def here(self) -> Int64Array:
        """What this replica's tiers and the pool hold at today's sizes, whenever they are asked."""
        reached = np.zeros_like(self._most)
        for tier in self._sizes.units:
            reached = np.maximum(reached, self._with(tier, self._sizes.at_least(tier)))
        return reached

    def under_other_names(self) -> Int64Array:
        """What the pool would hold for this replica if all cache servers named chunks alike."""
        return self._in(self._named_alike, self._sizes.at_least(Tier.L2))

    def elsewhere(self) -> Int64Array:
        """What another replica's L0 or L1 holds at today's sizes."""
        reached = np.zeros_like(self._most)
        for tier in (Tier.L0, Tier.L1):
            if self._sizes.units.get(tier):
                reached = np.maximum(reached, self._elsewhere(tier, self._sizes.units[tier]))
        return reached

    def known(self) -> Int64Array:
        """What was asked for before by anyone, in whole blocks; the tail of a chunk counts."""
        merged = _merged(self._window)
        blocks = hit_blocks_per_request(merged, np.array([max(merged.n_ids, 1)]))[:, 0]
        return np.minimum(blocks.astype(np.int64) * self._window.block_tokens, self.whole())

    def whole(self) -> Int64Array:
        """What can be hit at all: whole blocks before the last token, or whole chunks up to it."""
        size = self._window.block_tokens
        chunk = self._streams[Tier.L1].unit_tokens
        below = self._sizes.units.get(Tier.L1, 0) + self._sizes.units.get(Tier.L2, 0) > 0
        chunks = np.minimum(self._window.prompt // chunk * chunk, self._most) if below else 0
        reached: Int64Array = np.maximum(self._most // size * size, chunks)
        return reached

    def with_more_room(self) -> list[tuple[float, Tier, Int64Array]]:
        """For each tier and step of growth: bytes more, the tier, what it would hold; fewest bytes first."""
        found = []
        for tier, units in self._sizes.units.items():
            stream = self._streams[tier]
            most = int(stream.footprint_units().max(initial=0))
            steps = {min(int(np.ceil(units * growth)), most) for growth in (1.0, *GROWTH)} | {most}
            per_unit = self._sizes.bytes_per_token * stream.unit_tokens
            least = self._sizes.at_least(tier)
            found += [
                ((step - least) * per_unit, tier, self._with(tier, step))
                for step in steps
                if step > least > 0
            ]
        return sorted(found, key=lambda row: row[:2])

    def young(self) -> Int64Array:
        """What was computed, and so written to the pool, within its time to live; all of it without one.

        What the pool still has is not written again, and gets no older for being computed once more.
        """
        ttl = self._sizes.l2_ttl_seconds
        if ttl is None:
            return self._window.prompt
        young, chunks = np.zeros_like(self._window.prompt), self._chunks()
        for holder in self._streams[Tier.L2].holders:
            young[holder.requests] = self._young(holder, chunks, ttl)
        return young

    def _young(self, holder: Holder, chains: Chains, ttl_seconds: float) -> Int64Array:
        """The same of one holder's requests: (m,) tokens."""
        window, size = self._window, self._streams[Tier.L2].unit_tokens
        written = np.full(chains.n_ids, -np.inf)
        served = window.prompt - window.computed
        young = np.zeros(len(holder.requests), dtype=np.int64)
        for place, request in enumerate(holder.requests.tolist()):
            at = window.at_unix_seconds[request]
            path = chains.ids[chains.offsets[request] : chains.offsets[request + 1]]
            old = np.flatnonzero(written[path] < at - ttl_seconds)
            young[place] = (int(old[0]) if len(old) else len(path)) * size
            computed = path[-(-int(served[request]) // size) :]
            written[computed[written[computed] < at - ttl_seconds]] = at
        return young

    def said_elsewhere(self) -> Int64Array:
        """What was asked for before under another replica's names, as far as sessions tell."""
        merged = _merged(self._window)
        strangers = _strangers(self._window, merged)
        if not strangers:
            return np.zeros_like(self._most)
        one_name = _names_told_by_sessions(self._window, merged, strangers)
        seen = np.zeros(merged.n_ids, dtype=np.bool_)
        reached = np.zeros_like(self._most)
        for request in range(merged.requests):
            path = one_name[merged.ids[merged.offsets[request] : merged.offsets[request + 1]]]
            new = np.flatnonzero(~seen[path])
            reached[request] = int(new[0]) if len(new) else len(path)
            seen[path] = True
        reached *= self._window.block_tokens
        return reached

    def _with(self, tier: Tier, units: int) -> Int64Array:
        """What a tier of this replica holds at a size."""
        return self._in(self._streams[tier], units)

    def _in(self, stream: Stream, units: int) -> Int64Array:
        if units < 1:
            return np.zeros_like(self._most)
        return np.minimum(stream.hit_tokens(np.array([units], dtype=np.int64))[:, 0], self._most)

    def _chunks(self) -> Chains:
        """Everybody's chunks as one stream."""
        per_chunk = self._streams[Tier.L2].unit_tokens // self._window.block_tokens
        return chunked(_merged(self._window), per_chunk)

    def _elsewhere(self, tier: Tier, units: int) -> Int64Array:
        stream = self._streams[tier]
        merged = _merged(self._window) if tier is Tier.L0 else self._chunks()
        paths = Paths(merged.offsets, merged.ids, merged.n_ids)
        reached = np.zeros_like(self._most)
        for holder in stream.holders:
            mine = _marked(holder.requests, self._window.requests)
            tokens = held_blocks(paths, mine, units).astype(np.int64) * stream.unit_tokens
            reached = np.maximum(reached, np.where(mine, 0, np.minimum(tokens, self._most)))
        return reached


def _strangers(window: RequestWindow, merged: Chains) -> set[frozenset[int]]:
    """Pairs of replicas whose prompts never begin with a block of one name.

    Some prompts begin alike wherever they go, so replicas that hash alike have first blocks in common; a
    session alone is no witness, for it may hold prompts of several kinds.
    """
    asking = np.flatnonzero(np.diff(merged.offsets) > 0)
    first = merged.ids[merged.offsets[asking]]
    begun = {
        int(engine): set(first[window.engine[asking] == engine].tolist()) for engine in set(window.engine)
    }
    pairs = itertools.combinations(begun, 2)
    return {frozenset((a, b)) for a, b in pairs if begun[a] and begun[b] and not begun[a] & begun[b]}


def _names_told_by_sessions(
    window: RequestWindow, merged: Chains, strangers: set[frozenset[int]]
) -> Int32Array:
    """One name for each block, (n_ids,): blocks that two replicas name differently get the first one's.

    A session's prompts begin alike. Where two of them went to `strangers`, these hash differently, and what
    stands at one place of both prompts is the same block.
    """
    one_name = np.arange(merged.n_ids, dtype=np.int32)
    told: dict[int, dict[int, Int32Array]] = {}
    for request, session in enumerate(window.session.tolist()):
        path = merged.ids[merged.offsets[request] : merged.offsets[request + 1]]
        if not session or not len(path):
            continue
        engine = int(window.engine[request])
        by_engine = told.setdefault(session, {})
        for other, earlier in by_engine.items():
            if frozenset((engine, other)) in strangers:
                common = min(len(earlier), len(path))
                fresh = one_name[path[:common]] == path[:common]
                one_name[path[:common][fresh]] = one_name[earlier[:common][fresh]]
        by_engine[engine] = path
    return one_name[one_name]


def _merged(window: RequestWindow) -> Chains:
    """Everybody's blocks as one stream."""
    return numbered(window.block_hashes, window.offsets)


def _marked(requests: Int64Array, n: int) -> BoolArray:
    marks = np.zeros(n, dtype=np.bool_)
    marks[requests] = True
    return marks
