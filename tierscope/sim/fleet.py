"""Three tiers over several replicas, one request after the other: who gets each prompt token from where.

L0 is one engine's, L1 one replica's, L2 everybody's. A request is looked up when it comes and is all over
before the next one: what waits, overlaps and takes memory while it runs is `tierscope.sim.engine`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.split import Split, split_tokens, whole_blocks_below
from tierscope.domain.trace import Int32Array, Int64Array, Trace
from tierscope.sim import lmcache
from tierscope.sim.paths import block_paths, blocks_a_chunk, chunk_paths, only, with_answers
from tierscope.sim.policies import policy_named
from tierscope.traces.paths import Paths


class Holder(NamedTuple):
    """One cache and what it sees: `requests` (m,) index the trace, and so does the order of the paths."""

    requests: Int64Array
    paths: Paths


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSizes:
    """How much one holder of each tier has room for; 0: there is no such tier. The pool is one for all."""

    l0_blocks: int
    l1_chunks: int
    l2_chunks: int


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace placed on replicas, cut into what each cache sees; made once, simulated at many sizes.

    `placement` (n,) is each request's replica. `blocks` and `chunks` are prompts alone; L0 also sees what
    answers filled where those are known.
    """

    trace: Trace
    replicas: int
    placement: Int32Array
    chunk_tokens: int
    blocks: Paths
    chunks: Paths
    l0: tuple[Holder, ...]
    l1: tuple[Holder, ...]

    def split(self, l0_blocks: Int64Array, l1_chunks: Int64Array, hit_chunks: Int64Array) -> Split:
        """Tokens by tier from leading blocks in L0, chunks in L1, chunks in L1 and L2 together: (n,) each."""
        trace = self.trace
        l0 = whole_blocks_below(trace.input_tokens, l0_blocks * trace.block_tokens, trace.block_tokens)
        return split_tokens(
            trace.input_tokens, l0, l1_chunks * self.chunk_tokens, hit_chunks * self.chunk_tokens
        )


def workload_of(
    trace: Trace, placement: Int32Array, replicas: int, *, chunk_tokens: int, answers: bool = False
) -> Workload:
    """Cut a placed trace into its reference streams.

    A chunk is `chunk_tokens` rounded up to whole blocks. With `answers`, L0 keeps what decoding fills, as
    far as a session's next prompt tells what that was. Raises `BadInput` for a replica that is not there.
    """
    if len(placement) != trace.requests or np.any((placement < 0) | (placement >= replicas)):
        raise BadInput(
            f"{trace.requests} requests cannot be placed on {replicas} replicas as said",
            where="placement",
            fix="give each request a replica from 0 on",
        )
    blocks = block_paths(trace)
    per_chunk = blocks_a_chunk(chunk_tokens, trace.block_tokens)
    chunks = chunk_paths(blocks, per_chunk)
    seen_by_l0 = with_answers(blocks, trace) if answers else blocks
    of_replica = [np.flatnonzero(placement == replica) for replica in range(replicas)]
    return Workload(
        trace=trace,
        replicas=replicas,
        placement=placement,
        chunk_tokens=per_chunk * trace.block_tokens,
        blocks=blocks,
        chunks=chunks,
        l0=tuple(Holder(requests, only(seen_by_l0, requests)) for requests in of_replica),
        l1=tuple(Holder(requests, only(chunks, requests)) for requests in of_replica),
    )


def inclusive(workload: Workload, sizes: TierSizes, policy: str = "lru") -> Split:
    """Every tier sees every request's whole path and stores all of it: write-through, one eviction policy.

    The tiers then do not depend on each other, and what is available is the longest of their prefixes.
    """
    everything = (Holder(np.arange(workload.trace.requests), workload.chunks),)
    l0, l1, l2 = (
        _leading(workload, holders, capacity, policy)
        for holders, capacity in (
            (workload.l0, sizes.l0_blocks),
            (workload.l1, sizes.l1_chunks),
            (everything, sizes.l2_chunks),
        )
    )
    return workload.split(np.minimum(l0, workload.blocks.lengths), l1, np.maximum(l1, l2))


def as_lmcache(workload: Workload, l0_blocks: int, rules: lmcache.Rules) -> Split:
    """L0 as an LRU, below it LMCache's server and its pool by their real rules."""
    l0 = _leading(workload, workload.l0, l0_blocks, "lru")
    shelves = lmcache.empty_shelves(workload.replicas, workload.chunks.n_ids)
    l1, hit = lmcache.leading_hits(workload.chunks, workload.placement, workload.trace.at_ms, shelves, rules)
    return workload.split(np.minimum(l0, workload.blocks.lengths), l1.astype(np.int64), hit.astype(np.int64))


def _leading(workload: Workload, holders: tuple[Holder, ...], capacity: int, policy: str) -> Int64Array:
    """Leading units of each request that its holder has: (n,)."""
    hits = np.zeros(workload.trace.requests, dtype=np.int64)
    leading_hits = policy_named(policy).leading_hits
    for holder in holders:
        hits[holder.requests] = leading_hits(holder.paths, capacity)
    return hits
