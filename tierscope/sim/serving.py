"""Serve a trace by a fleet of engine models: tokens by tier, times to first token, who served how much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.split import Split, split_tokens
from tierscope.domain.trace import FloatArray, Int32Array, Trace
from tierscope.sim import routers
from tierscope.sim.fleet import TierSizes
from tierscope.sim.jobs import Records, StepTimes, World, new_engines, new_jobs
from tierscope.sim.lmcache import Rules, empty_shelves
from tierscope.sim.memory import empty_memory
from tierscope.sim.paths import block_paths, blocks_a_chunk, chunk_paths, with_answers
from tierscope.sim.routers.arrivals import arrivals_of
from tierscope.sim.routers.gateway import Index, Weights
from tierscope.sim.routers.least_asked import nothing_asked
from tierscope.sim.routers.pages import unread
from tierscope.sim.routers.session import owners
from tierscope.sim.routing import GATEWAY, KVAWARE, PLACED, Router, run
from tierscope.traces.paths import Paths

CHART_WEIGHTS = Weights()
NEAR_A_7B_MODEL = StepTimes()
DEFAULT_INDEX = Index()
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Replicas, the sizes and rules of their tiers, the router before them, and how long a step takes."""

    replicas: int
    sizes: TierSizes
    policy: RoutingPolicy
    chunk_tokens: int = 256
    keeps_loads: bool = True
    l1_watermark_ratio: float = 0.8
    l1_eviction_ratio: float = 0.2
    l2_ttl_seconds: float | None = None
    answers: bool = True
    """Whether L0 keeps the blocks that answers fill."""
    routers: int = 1
    most_open: int = NO_LIMIT
    """Requests under way at once that the proxy before the engines bears. What comes then is refused: Envoy
    answers 503, from 1,024 on where nothing else is set (`max_requests` of its circuit breakers)."""
    chat: bool = False
    """Requests are chats: `kvaware` reads no prompt in them."""
    weights: Weights = CHART_WEIGHTS
    index: Index = DEFAULT_INDEX
    times: StepTimes = NEAR_A_7B_MODEL
    seed: int = 1

    @property
    def rules(self) -> Rules:
        """The rules of L1 and L2."""
        rules = Rules(
            self.sizes.l1_chunks,
            self.sizes.l2_chunks,
            watermark_ratio=self.l1_watermark_ratio,
            eviction_ratio=self.l1_eviction_ratio,
            batch_chunks=max(self.times.step_tokens // self.chunk_tokens, 1),
            keeps_loads=self.keeps_loads,
        )
        if self.l2_ttl_seconds is None:
            return rules
        return rules._replace(l2_ttl_ms=int(self.l2_ttl_seconds * 1000))


@dataclass(frozen=True, slots=True)
class Served:
    """What came of n requests: tokens by tier, seconds, and the replica; (n,) each.

    A refused request has the replica -1, no times (NaN), and counts as computed.
    `queue_seconds` end at admission; `answer_seconds` are from the first token to the last.
    """

    split: Split
    replica: Int32Array
    queue_seconds: FloatArray
    ttft_seconds: FloatArray
    answer_seconds: FloatArray

    @property
    def refused(self) -> int:
        """Requests too long for any engine, or too many at once for the proxy."""
        return int(np.count_nonzero(self.replica < 0))


def serve(trace: Trace, fleet: Fleet, placement: Int32Array | None = None) -> Served:
    """Serve a trace at its own times; the same trace, fleet and seed give the same, to the bit.

    With a `placement` (n,) every request goes to the replica it says, and no router is asked.
    """
    blocks = block_paths(trace)
    per_chunk = blocks_a_chunk(fleet.chunk_tokens, trace.block_tokens)
    chunks = chunk_paths(blocks, per_chunk)
    paths = with_answers(blocks, trace) if fleet.answers else blocks
    n = trace.requests
    world = World(
        times=fleet.times,
        block_tokens=trace.block_tokens,
        chunk_tokens=per_chunk * trace.block_tokens,
        jobs=_jobs(trace, fleet, blocks, placement),
        engines=new_engines(fleet.replicas),
        queues=np.zeros((fleet.replicas, n + 1), np.int32),
        running=np.zeros((fleet.replicas, fleet.times.most_running), np.int32),
        paths=paths,
        chunks=chunks,
        memory=empty_memory(fleet.replicas, paths.n_ids, fleet.sizes.l0_blocks),
        shelves=empty_shelves(fleet.replicas, chunks.n_ids),
        rules=fleet.rules,
    )
    run(world, _router(trace, fleet, blocks.n_ids, placed=placement is not None))
    return _served(world)


def faster(trace: Trace, times: float) -> Trace:
    """The same requests, coming so many times as fast."""
    return replace(trace, at_ms=(trace.at_ms / times).astype(np.int64))


def _jobs(trace: Trace, fleet: Fleet, blocks: Paths, placement: Int32Array | None) -> Records:
    rng = np.random.default_rng(fleet.seed)
    jobs = new_jobs(trace.requests)
    jobs.at_seconds = trace.at_ms / 1000
    jobs.prompt = trace.input_tokens
    jobs.output = np.maximum(trace.output_tokens, 1)
    jobs.named = blocks.lengths
    jobs.fallback = owners(trace.session, fleet.replicas)
    jobs.draw = rng.random(trace.requests)
    if fleet.policy is RoutingPolicy.GATEWAY and fleet.routers > 1:
        jobs.gateway = rng.integers(0, fleet.routers, trace.requests)
    if placement is not None:
        jobs.placement = placement
    elif fleet.policy in routers.PLACING:
        jobs.placement = routers.place(
            fleet.policy, arrivals_of(trace), fleet.replicas, rng, routers=fleet.routers
        )
    return jobs


def _router(trace: Trace, fleet: Fleet, n_ids: int, *, placed: bool) -> Router:
    kinds = {RoutingPolicy.KVAWARE: PLACED if fleet.chat else KVAWARE, RoutingPolicy.GATEWAY: GATEWAY}
    kind = PLACED if placed else kinds.get(fleet.policy, PLACED)
    remembers = kind == GATEWAY and not fleet.index.precise
    return Router(
        kind=kind,
        weights=fleet.weights,
        precise=fleet.index.precise,
        relative=fleet.index.relative,
        remembered=empty_memory(
            fleet.replicas * fleet.routers if remembers else 1,
            n_ids if remembers else 0,
            fleet.index.tokens // trace.block_tokens,
        ),
        remembered_blocks=fleet.index.prompt_tokens // trace.block_tokens,
        pages=unread(fleet.replicas),
        asked=nothing_asked(fleet.replicas, trace.requests),
        most_open=fleet.most_open,
    )


def _served(world: World) -> Served:
    jobs = world.jobs
    l0 = jobs.l0.astype(np.int64) * world.block_tokens
    l1, hit = (part.astype(np.int64) * world.chunk_tokens for part in (jobs.l1, jobs.hit))
    queue = np.where(jobs.admitted_seconds < 0, np.nan, jobs.admitted_seconds - jobs.at_seconds)
    ttft = np.array(jobs.ttft_seconds)
    return Served(
        split_tokens(np.array(jobs.prompt), l0, l1, hit),
        np.array(jobs.replica),
        queue,
        ttft,
        jobs.ended_seconds - jobs.at_seconds - (ttft - world.times.api_seconds),
    )
