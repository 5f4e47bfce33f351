"""Which tier would have served each request, for any size of any tier: joint depths from one window.

Each tier is an LRU stack over its own reference stream, touched with the whole path of every request:
L0 over one engine's requests, L1 over one replica's, L2 over everybody's, the last two in whole chunks.
A tier's hits are a prefix of the path, so what is available is the longest of the three, and a token is
credited to the first tier that reaches it. The three depths are kept a request: their sums alone could
not be combined.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.analytics.chains import Chains, densify
from tierscope.analytics.curve import hit_blocks_per_request
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.domain.window import RequestWindow


class Holder(NamedTuple):
    """One cache of a tier and the requests it sees: `requests` (m,) index the window."""

    requests: Int64Array
    chains: Chains


@dataclass(frozen=True, slots=True)
class Stream:
    """The reference streams of one tier: every holder's requests with their chains of `unit_tokens` units.

    `leading` (requests,) limits what a request can be served, in units, where a holder does not keep all
    that passes; None where it does.
    """

    unit_tokens: int
    requests: int
    holders: tuple[Holder, ...]
    leading: Int64Array | None = None

    def hit_tokens(self, capacities_units: Int64Array) -> Int64Array:
        """Tokens of each request that one holder of each size would have had: (requests, sizes), int64."""
        tokens = np.zeros((self.requests, len(capacities_units)), dtype=np.int64)
        for holder in self.holders:
            units = hit_blocks_per_request(holder.chains, capacities_units).astype(np.int64)
            if self.leading is not None:
                units = np.minimum(units, self.leading[holder.requests][:, None])
            tokens[holder.requests] = units * self.unit_tokens
        return tokens

    def footprint_units(self, first: int = 0, last: int | None = None) -> Int64Array:
        """Distinct units each holder was asked for by requests first..last-1 of the window: (holders,)."""
        end = self.requests if last is None else last
        return np.array([_distinct(holder, first, end) for holder in self.holders], dtype=np.int64)

    def longest_units(self) -> int:
        """Units of the longest chain; 0 without any."""
        lengths = [np.diff(holder.chains.offsets).max(initial=0) for holder in self.holders]
        return int(max(lengths, default=0))


@dataclass(frozen=True, slots=True)
class JointStreams:
    """The streams of the three tiers over the same requests; `prompt` (n,) are tokens.

    `l1` keeps everything that passes it. `l1_own` is for an L1 that drops what it loads from L2: it holds
    only chunks that its own replica was the first to compute, so a path counts up to the first foreign one.
    It is near, not exact: here an own chunk comes back when it is loaded again after its eviction. Really
    it does not, and then a smaller L1 need not hold a part of what a larger one holds: no single pass can
    tell that for every size.
    """

    prompt: Int64Array
    l0: Stream
    l1: Stream
    l1_own: Stream
    l2: Stream


def joint_streams(window: RequestWindow, chunk_tokens: int) -> JointStreams:
    """Cut a window into the reference streams of its engines (L0), replicas (L1) and pool (L2).

    Raises `BadInput` where a chunk is not a whole number of blocks.
    """
    per_chunk, rest = divmod(chunk_tokens, window.block_tokens)
    if rest or per_chunk < 1:
        raise BadInput(
            f"a chunk of {chunk_tokens} tokens is not a whole number of blocks of {window.block_tokens}",
            where="chunk_tokens",
            fix="set the cache server's chunk size to a multiple of the engine's block size",
        )
    blocks = Chains(window.offsets, *densify(window.block_hashes))
    chunks = _chunks(blocks, per_chunk) if per_chunk > 1 else blocks
    replica = [(engine.namespace, engine.endpoint, engine.replica) for engine in window.engines]
    n = window.requests
    l1 = Stream(chunk_tokens, n, _holders(chunks, window.engine, replica))
    return JointStreams(
        prompt=window.prompt,
        l0=Stream(window.block_tokens, n, _holders(blocks, window.engine, window.engines)),
        l1=l1,
        l1_own=_own(l1, chunks),
        l2=Stream(chunk_tokens, n, (Holder(np.arange(n, dtype=np.int64), chunks),)),
    )


def _chunks(blocks: Chains, per_chunk: int) -> Chains:
    """Chains of whole chunks, each named by its last block, which names its whole prefix."""
    lengths = np.diff(blocks.offsets) // per_chunk
    offsets = np.concatenate(([0], np.cumsum(lengths)), dtype=np.int64)
    ids = np.empty(offsets[-1], dtype=np.int32)
    for i, start in enumerate(blocks.offsets[:-1].tolist()):
        chain = blocks.ids[start + per_chunk - 1 : blocks.offsets[i + 1] : per_chunk]
        ids[offsets[i] : offsets[i + 1]] = chain
    return Chains(offsets, ids, blocks.n_ids)


def _holders(chains: Chains, engine: Int32Array, owners: Iterable[Hashable]) -> tuple[Holder, ...]:
    """One holder for each distinct owner; `owners[k]` owns the requests of engine k."""
    numbers: dict[Hashable, int] = {}
    owner_of = np.array([numbers.setdefault(owner, len(numbers)) for owner in owners], dtype=np.int64)
    if len(numbers) == 1:
        return (Holder(np.arange(len(engine), dtype=np.int64), chains),)
    found = (np.flatnonzero(owner_of[engine] == number) for number in range(len(numbers)))
    return tuple(Holder(requests, _only(chains, requests)) for requests in found if len(requests))


def _only(chains: Chains, requests: Int64Array) -> Chains:
    """The chains of some requests, in their order and with the same ids."""
    starts = chains.offsets[requests]
    lengths = chains.offsets[requests + 1] - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)), dtype=np.int64)
    ids = np.empty(offsets[-1], dtype=np.int32)
    for i, start in enumerate(starts.tolist()):
        ids[offsets[i] : offsets[i + 1]] = chains.ids[start : start + lengths[i]]
    return Chains(offsets, ids, chains.n_ids)


def _own(stream: Stream, chains: Chains) -> Stream:
    """What remains of a stream when a holder keeps only the units it was the first of all to be asked for."""
    first_request = np.zeros(chains.n_ids, dtype=np.int64)
    request_of = np.repeat(np.arange(stream.requests), np.diff(chains.offsets))
    first_request[chains.ids[::-1]] = request_of[::-1]
    holder_of = np.zeros(stream.requests, dtype=np.int64)
    for number, holder in enumerate(stream.holders):
        holder_of[holder.requests] = number
    owner = holder_of[first_request]
    leading = np.zeros(stream.requests, dtype=np.int64)
    holders = []
    for number, holder in enumerate(stream.holders):
        offsets = holder.chains.offsets
        own = owner[holder.chains.ids] == number
        foreign = np.append(np.flatnonzero(~own), offsets[-1])
        leading[holder.requests] = (
            np.minimum(foreign[np.searchsorted(foreign, offsets[:-1])], offsets[1:]) - offsets[:-1]
        )
        kept = np.concatenate(([0], np.cumsum(own)), dtype=np.int64)[offsets]
        own_chains = Chains(kept, holder.chains.ids[own], holder.chains.n_ids)
        holders.append(Holder(holder.requests, own_chains))
    return Stream(stream.unit_tokens, stream.requests, tuple(holders), leading)


def _distinct(holder: Holder, first: int, last: int) -> int:
    low, high = np.searchsorted(holder.requests, (first, last))
    ids = holder.chains.ids[holder.chains.offsets[low] : holder.chains.offsets[high]]
    seen = np.zeros(holder.chains.n_ids, dtype=np.bool_)
    seen[ids] = True
    return int(seen.sum())
