"""How fast a fleet is simulated: the hit split of many configurations, and one with queue and memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tierscope.cli.benches.rows import Row, best_seconds
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.trace import Trace
from tierscope.sim.fleet import TierSizes, Workload, inclusive, workload_of
from tierscope.sim.policies import policy_named
from tierscope.sim.serving import Fleet, serve

REPLICAS = 4
CHUNK_TOKENS = 256
CONFIGURATIONS = 200


def hit_split(trace: Trace) -> Iterator[Row]:
    """Four replicas in turn, three tiers; an access counts once, not once a tier."""
    workload = _workload(trace)
    sizes = _sizes(workload, 0.3)
    inclusive(workload, sizes)  # compiles
    seconds = best_seconds(lambda: inclusive(workload, sizes))
    yield Row("three tiers by four replicas", trace.requests / seconds / 1e3, "k requests/s")
    yield Row("three tiers by four replicas", trace.accesses / seconds / 1e6, "M block accesses/s")
    shares = np.geomspace(0.001, 1, CONFIGURATIONS)
    many = best_seconds(lambda: [inclusive(workload, _sizes(workload, share)) for share in shares], repeats=1)
    yield Row(f"hit split of {CONFIGURATIONS} configurations, one core", many, "s")


def time_to_first_token(trace: Trace) -> Iterator[Row]:
    """One configuration with queues, memory held by running requests, and step times."""
    fleet = Fleet(replicas=REPLICAS, sizes=_sizes(_workload(trace), 0.3), policy=RoutingPolicy.ROUNDROBIN)
    serve(trace, fleet)  # compiles
    seconds = best_seconds(lambda: serve(trace, fleet), repeats=2)
    yield Row("TTFT of one configuration, queues and all", seconds, "s")


def eviction_policies(trace: Trace) -> Iterator[Row]:
    """Each policy at one size: a third of the distinct blocks."""
    paths = _workload(trace).blocks
    for name in ("lru", "fifo", "s3fifo", "lfu", "opt"):
        leading_hits = policy_named(name).leading_hits
        leading_hits(paths, paths.n_ids // 3)  # compiles
        seconds = best_seconds(lambda: leading_hits(paths, paths.n_ids // 3), repeats=2)  # noqa: B023 - called at once
        yield Row(f"{name} at one size", len(paths.ids) / seconds / 1e6, "M block accesses/s")


def _workload(trace: Trace) -> Workload:
    placement = (np.arange(trace.requests) % REPLICAS).astype(np.int32)
    return workload_of(trace, placement, REPLICAS, chunk_tokens=CHUNK_TOKENS)


def _sizes(workload: Workload, share: float) -> TierSizes:
    """L0 and L1 of a hundredth and a tenth of the pool, the pool a share of all chunks."""
    blocks, chunks = workload.blocks.n_ids, workload.chunks.n_ids
    return TierSizes(
        l0_blocks=max(int(share * blocks / 100), int(workload.blocks.lengths.max(initial=1))),
        l1_chunks=max(int(share * chunks / 10), 1),
        l2_chunks=max(int(share * chunks), 1),
    )
