"""Our curve next to `kvcache-simulator`'s, an independent program: how much faster, how many hits apart."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tierscope.analytics.chains import Chains, chains_of
from tierscope.analytics.curve import hit_ratio_curve
from tierscope.cli.benches.rows import Row, best_seconds
from tierscope.domain.trace import Trace
from tierscope.traces.rows import select

if TYPE_CHECKING:
    from kvcache_sim.trace import TraceData

PEER = "kvcache-simulator"
SIZES = 8
MOST_ACCESSES = 4_000_000
"""What the peer is given at most, in whole requests: it takes a trace as Python lists."""


def curve_and_peer(trace: Trace) -> Iterator[Row]:
    """Every size in one pass; the peer computes eight sizes, where it and a compiler are installed."""
    part = _beginning(trace)
    chains = chains_of(part)
    hit_ratio_curve(chains)  # compiles
    ours = best_seconds(lambda: hit_ratio_curve(chains))
    rate = chains.accesses / ours / 1e6
    what = "exact hit ratio, every size"
    if importlib.util.find_spec("kvcache_sim") is None or shutil.which("c++") is None:
        yield Row(what, rate, "M block accesses/s")
        return
    longest = int(np.diff(chains.offsets).max(initial=1))
    sizes = np.unique(np.geomspace(longest, max(chains.n_ids // 2, longest), SIZES).astype(np.int64))
    theirs, hits = _peer(part, sizes.tolist())
    yield Row(what, rate, "M block accesses/s", f"{PEER}, {len(sizes)} sizes", theirs / ours)
    if hits:
        yield Row(f"hit tokens that differ, {len(hits)} sizes", _differing(part, hits), "tokens", PEER, 1.0)


def _beginning(trace: Trace) -> Trace:
    requests = int(np.searchsorted(trace.offsets, MOST_ACCESSES, side="right")) - 1
    return select(trace, np.arange(min(max(requests, 1), trace.requests)))


def _peer(trace: Trace, sizes: list[int]) -> tuple[float, dict[int, int]]:
    """Seconds for its sizes, files and all, and hit tokens of the last half where it was full by then."""
    from kvcache_sim.cpp_backend import ensure_cpp_simulator, run_cpp_sweep

    ensure_cpp_simulator()
    peers_trace = as_peer(trace)
    started = time.perf_counter()
    found = run_cpp_sweep(
        peers_trace, capacities=sizes, policies=["lru"], warmup_requests=trace.requests // 2
    )
    seconds = time.perf_counter() - started
    hits = {
        size: result.hitTokens
        for (_, size), result in found.results.items()
        if result.measurementMode == "fixed_window"
    }
    return seconds, hits


def as_peer(trace: Trace) -> TraceData:
    """A trace as the peer takes it, its tokens block by block."""
    from kvcache_sim.trace import TraceData

    return TraceData(
        ids=trace.block_ids.tolist(),
        tokens=_tokens(trace).tolist(),
        request_starts=trace.offsets.tolist(),
        block_size=trace.block_tokens,
        request_count=trace.requests,
        unique_raw_blocks=len(np.unique(trace.block_ids)),
        total_input_tokens=int(trace.input_tokens.sum()),
        average_input_tokens=float(trace.input_tokens.mean()),
        parse_errors=0,
        skipped_records=0,
    )


def _tokens(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Tokens of each accessed block: whole ones, and what the last one holds."""
    lengths = np.diff(trace.offsets)
    tokens = np.full(trace.accesses, trace.block_tokens, dtype=np.int64)
    asked = lengths > 0
    last = trace.input_tokens - (lengths - 1) * trace.block_tokens
    tokens[trace.offsets[1:][asked] - 1] = np.clip(last[asked], 1, trace.block_tokens)
    return tokens


def _differing(trace: Trace, hits: dict[int, int]) -> int:
    """Hit tokens by which our curve of the last half and the peer's differ, over its sizes."""
    last = _tokens(trace)[np.maximum(trace.offsets[1:] - 1, 0)]
    curve = hit_ratio_curve(
        Chains(trace.offsets, trace.block_ids, int(trace.block_ids.max()) + 1),
        block_weight=trace.block_tokens,
        last_block_weights=last,
        first_counted=trace.requests // 2,
    )
    return sum(
        abs(int(curve.hit_weight[min(size, curve.unique_blocks)]) - found) for size, found in hits.items()
    )
