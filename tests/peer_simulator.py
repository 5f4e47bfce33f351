"""`kvcache-simulator` on our traces: an independent program for the same question, one tier at one size.

It measures the last half of the requests, and leaves out sizes that were not full by then.
"""

from __future__ import annotations

import numpy as np
from kvcache_sim.plan import build_execution_plan
from kvcache_sim.policies import simulate_policy

from tierscope.cli.benches.analytics import as_peer
from tierscope.domain.trace import Trace

POLICIES = {"lru": "lru", "fifo": "fifo", "opt": "optimal"}
"""Our name of a policy to its own."""


def peer_hit_tokens(trace: Trace, policy: str, capacities: list[int]) -> dict[int, int]:
    """Hit tokens of the last half at each capacity that was full by then, by the peer's Python half."""
    plan = build_execution_plan(as_peer(trace))
    found = {size: simulate_policy(plan, POLICIES[policy], size) for size in capacities}
    return {
        size: result.hitTokens for size, result in found.items() if result.measurementMode == "fixed_window"
    }


def our_hit_tokens(trace: Trace, hit_blocks: np.ndarray) -> int:
    """Hit tokens of the last half, a partial last block by the tokens it holds."""
    tokens = np.minimum(hit_blocks.astype(np.int64) * trace.block_tokens, trace.input_tokens)
    return int(tokens[trace.requests // 2 :].sum())
