"""The public traces, whole: known counts, and the chain kernels against their naive twin."""

from __future__ import annotations

import numpy as np
import pytest

from tests import naive
from tierscope.analytics.chains import chains_of
from tierscope.analytics.curve import hit_blocks_per_request, hit_ratio_curve
from tierscope.traces.open import read_trace
from tierscope.traces.sessions import spread_sessions

pytestmark = pytest.mark.long


def test_the_mooncake_hour_has_its_known_counts_and_the_naive_hits(traces):
    """12,031 requests; at 20 capacities the curve is the one a cache that really evicts would have had."""
    trace = read_trace(traces / "mooncake_conversation.jsonl.gz")
    chains = chains_of(trace)
    capacities = np.unique(np.geomspace(1, chains.n_ids, 20).astype(np.int64))

    curve = hit_ratio_curve(chains)

    assert (trace.requests, trace.accesses, curve.unique_blocks) == (12_031, 288_500, 182_790)
    assert round(curve.infinite_hit_ratio, 4) == 0.3664
    hits = np.zeros(len(capacities), dtype=np.int64)
    for depths in naive.request_depths_of(chains):
        hits += [naive.leading_hits(depths, int(capacity)) for capacity in capacities]
    assert curve.at(capacities) == pytest.approx(hits / trace.accesses, abs=0)
    assert np.array_equal(hit_blocks_per_request(chains, capacities).sum(axis=0), hits)


def test_the_parquet_form_of_a_trace_is_the_same_trace(traces):
    """Both readers agree on times, lengths and paths."""
    lines = read_trace(traces / "mooncake_synthetic.jsonl.gz")
    rows = read_trace(traces / "mooncake_synthetic.parquet")

    for name in ("at_ms", "input_tokens", "output_tokens", "offsets", "block_ids"):
        assert np.array_equal(getattr(lines, name), getattr(rows, name)), name


def test_the_claude_sessions_are_read_and_spread(traces):
    """57.9 M block accesses in one pass; 96.3 % of them are of blocks seen before."""
    trace = spread_sessions(read_trace(traces / "claude_code_sessions.parquet"), hours=12, seed=1)

    curve = hit_ratio_curve(chains_of(trace))

    assert (trace.requests, trace.accesses, curve.unique_blocks) == (31_107, 57_890_928, 2_139_980)
    assert round(curve.infinite_hit_ratio, 3) == 0.963
