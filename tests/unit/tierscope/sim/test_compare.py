"""Which router fits which traffic: expected hits and imbalance of each, on traffic made to tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.unit.tierscope.sim.test_fleet import trace_of
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.trace import Trace
from tierscope.sim.compare import EVERY_POLICY, RouterResult, compare_routers
from tierscope.sim.fleet import TierSizes
from tierscope.sim.jobs import StepTimes
from tierscope.sim.serving import Fleet

TIMES = StepTimes(step_seconds=0.01, prefill_seconds_per_token=0.001, api_seconds=0.0)
SYSTEM, TAIL = 40, 4


def compared(trace: Trace, *, l0_blocks: int) -> dict[RoutingPolicy, RouterResult]:
    """Four replicas without lower tiers, so that a misroute costs what it costs."""
    fleet = Fleet(
        replicas=4,
        sizes=TierSizes(l0_blocks=l0_blocks, l1_chunks=0, l2_chunks=0),
        policy=RoutingPolicy.ROUNDROBIN,
        chunk_tokens=16,
        times=TIMES,
    )
    return {result.policy: result for result in compare_routers(trace, fleet)}


def apps(popularity: list[float], requests: int, gap_ms: int) -> Trace:
    """Single turns, each behind the system prompt of one of several apps."""
    rng = np.random.default_rng(1)
    app = rng.choice(len(popularity), requests, p=popularity)
    lists = [
        [1000 * a + k for k in range(SYSTEM)] + [100_000 + TAIL * i + k for k in range(TAIL)]
        for i, a in enumerate(app.tolist())
    ]
    _, ids = np.unique(np.concatenate([np.array(path) for path in lists]), return_inverse=True)
    trace = trace_of(lists, output=5)
    return replace(trace, block_ids=ids.astype(np.int32), at_ms=np.arange(requests, dtype=np.int64) * gap_ms)


def test_few_sessions_without_a_common_beginning_want_their_session_kept():
    """UD-57: seven conversations that share nothing: `session` hits as much as any, taking turns less."""
    paths = [[2000 * s + k for k in range(10 * (turn + 1))] for turn in range(12) for s in range(7)]
    _, ids = np.unique(np.concatenate([np.array(path) for path in paths]), return_inverse=True)
    trace = trace_of(paths, session=list(range(7)) * 12)
    results = compared(replace(trace, block_ids=ids.astype(np.int32)), l0_blocks=2000)

    best = max(result.hit_ratio for result in results.values())
    assert results[RoutingPolicy.SESSION].hit_ratio > best - 0.01
    assert results[RoutingPolicy.ROUNDROBIN].hit_ratio < best - 0.03


def test_system_prompts_shared_over_replicas_want_a_router_that_knows_prefixes():
    """UD-57: twelve apps, room for three of them in L0: who keeps apps together hits, who does not misses."""
    results = compared(apps([1 / 12] * 12, 400, 200), l0_blocks=200)

    knowing = min(results[RoutingPolicy.PREFIXAWARE].hit_ratio, results[RoutingPolicy.GATEWAY].hit_ratio)
    assert knowing > 0.6
    assert results[RoutingPolicy.ROUNDROBIN].hit_ratio < knowing - 0.2
    best = min(results.values(), key=lambda result: result.mean_ttft_seconds)
    assert best.policy in {RoutingPolicy.PREFIXAWARE, RoutingPolicy.GATEWAY}


def test_a_hot_prefix_wants_load_in_the_score():
    """UD-60: 80 % on one prefix load one replica by affinity alone; few hits are given up for a short queue.

    It is not as even as taking turns: the queue that sends prompts elsewhere is seen when a step has ended.
    """
    results = compared(apps([0.8, 0.1, 0.1], 400, 30), l0_blocks=400)
    affinity, spread = results[RoutingPolicy.PREFIXAWARE], results[RoutingPolicy.GATEWAY]

    assert affinity.imbalance > 3
    assert 1.5 < spread.imbalance < affinity.imbalance - 1
    assert affinity.hit_ratio - spread.hit_ratio < 0.1
    assert spread.mean_ttft_seconds < affinity.mean_ttft_seconds / 2


def test_routers_come_best_first():
    """All five, by mean TTFT."""
    trace = apps([1 / 3] * 3, 30, 100)
    found = compare_routers(
        trace,
        Fleet(replicas=2, sizes=TierSizes(l0_blocks=400, l1_chunks=0, l2_chunks=0), policy=EVERY_POLICY[0]),
    )

    assert {result.policy for result in found} == set(EVERY_POLICY)
    assert [r.mean_ttft_seconds for r in found] == sorted(r.mean_ttft_seconds for r in found)
