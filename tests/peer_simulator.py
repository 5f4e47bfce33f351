"""`kvcache-simulator` on our traces: an independent program for the same question, one tier at one size.

It measures the last half of the requests, and leaves out sizes that were not full by then.
"""

from __future__ import annotations

import numpy as np
from kvcache_sim.plan import build_execution_plan
from kvcache_sim.policies import simulate_policy
from kvcache_sim.trace import TraceData

from tierscope.domain.trace import Trace

POLICIES = {"lru": "lru", "fifo": "fifo", "opt": "optimal"}
"""Our name of a policy to its own."""


def as_peer(trace: Trace) -> TraceData:
    """A trace as the peer takes it, its tokens block by block; no detour over a file."""
    lengths = np.diff(trace.offsets)
    tokens = np.full(trace.accesses, trace.block_tokens, dtype=np.int64)
    asked = lengths > 0
    last = trace.input_tokens - (lengths - 1) * trace.block_tokens
    tokens[trace.offsets[1:][asked] - 1] = np.clip(last[asked], 1, trace.block_tokens)
    return TraceData(
        ids=trace.block_ids.tolist(),
        tokens=tokens.tolist(),
        request_starts=trace.offsets.tolist(),
        block_size=trace.block_tokens,
        request_count=trace.requests,
        unique_raw_blocks=len(np.unique(trace.block_ids)),
        total_input_tokens=int(trace.input_tokens.sum()),
        average_input_tokens=float(trace.input_tokens.mean()),
        parse_errors=0,
        skipped_records=0,
    )


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
