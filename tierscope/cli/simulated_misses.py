"""Why a simulated fleet computed what it computed: its requests as if they had been recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tierscope.analytics.misses import TierUnits, miss_causes
from tierscope.domain.identity import EngineId
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow, TimeSpan
from tierscope.sim.paths import block_paths, blocks_a_chunk

if TYPE_CHECKING:
    from tierscope.domain.trace import Trace
    from tierscope.sim.serving import Fleet, Served


def miss_tokens(trace: Trace, served: Served, fleet: Fleet) -> dict[str, int]:
    """Computed tokens of the simulated requests by cause; they add up to all that was computed.

    A refused request counts at the first replica.
    """
    units = {Tier.L0: fleet.sizes.l0_blocks, Tier.L1: fleet.sizes.l1_chunks, Tier.L2: fleet.sizes.l2_chunks}
    chunk_tokens = blocks_a_chunk(fleet.chunk_tokens, trace.block_tokens) * trace.block_tokens
    misses = miss_causes(
        _recorded(trace, served, fleet, chunk_tokens),
        chunk_tokens,
        TierUnits(units, bytes_per_token=1.0, l2_ttl_seconds=fleet.l2_ttl_seconds),
    )
    return {cause.value: tokens for cause, tokens in misses.totals().items()}


def _recorded(trace: Trace, served: Served, fleet: Fleet, chunk_tokens: int) -> RequestWindow:
    paths = block_paths(trace)
    nothing = np.zeros(trace.requests, dtype=np.int64)
    at = trace.at_ms / 1000
    return RequestWindow(
        span=TimeSpan(float(at.min(initial=0.0)), float(at.max(initial=0.0)) + 0.001),
        engines=tuple(EngineId("simulated", "fleet", f"replica-{i}") for i in range(fleet.replicas)),
        models=("simulated",),
        block_tokens=trace.block_tokens,
        chunk_tokens=chunk_tokens,
        at_unix_seconds=at,
        engine=np.maximum(served.replica, 0),
        model=np.zeros(trace.requests, dtype=np.int32),
        session=(trace.session + 1).astype(np.uint64),
        prompt=trace.input_tokens,
        l0=served.split.l0,
        l1=served.split.l1,
        l2=served.split.l2,
        external=nothing,
        computed=served.split.computed,
        queue_seconds=served.queue_seconds,
        load_seconds=np.full(trace.requests, np.nan),
        ttft_seconds=served.ttft_seconds,
        offsets=paths.offsets,
        block_hashes=paths.ids.astype(np.uint64),
    )
