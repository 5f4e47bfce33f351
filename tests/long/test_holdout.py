"""Drift told and not told, a hundred workloads of each kind; the hold-out on the public traces."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drifting import KINDS, generated, interleaved
from tests.long_sample import SAMPLED
from tierscope.analytics.chains import chains_of
from tierscope.analytics.holdout import hold_out
from tierscope.cli.spread import spread
from tierscope.traces.open import read_trace

pytestmark = pytest.mark.long

WORKLOADS = 20 if SAMPLED else 100


def told(kind: str) -> float:
    """Share of generated workloads in which drift is told."""
    found = []
    for seed in range(WORKLOADS):
        chains = generated(kind, np.random.default_rng(seed))
        sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 40).astype(np.int64))
        found.append(hold_out(chains, sizes, np.random.default_rng(seed)).drift.found)
    return float(np.mean(found))


def test_stationary_workloads_are_seldom_called_drifting():
    """At most 5 of 100."""
    assert told("stationary") <= 0.05


def test_drifting_workloads_are_told():
    """At least 95 of 100 over the kinds, 90 of each, and a jump always."""
    shares = {kind: told(kind) for kind in KINDS}

    assert np.mean(list(shares.values())) >= 0.95, shares
    assert min(shares.values()) >= 0.9
    assert shares["jumping"] == 1.0


def test_sessions_that_only_take_turns_are_covered():
    """Workloads of sessions, each longer than a slice: nine of ten intervals hold on average."""
    covered = []
    for seed in range(WORKLOADS // 2):
        chains, session = interleaved(np.random.default_rng(seed), lambda _: 12, requests=6000)
        sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 40).astype(np.int64))
        covered.append(hold_out(chains, sizes, np.random.default_rng(seed), session).coverage)

    assert np.mean(covered) >= 0.9


def test_claude_drifts_and_is_predicted_for_the_load_that_comes(traces):
    """Its second half has the end of all sessions: told how many take turns, it is off by 0.015 and 0.06."""
    trace = spread(read_trace(traces / "claude_code_sessions.parquet"), 12, 1)
    chains = chains_of(trace)
    sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 40).astype(np.int64))
    found = hold_out(chains, sizes, np.random.default_rng(1), trace.session)

    assert found.drift.found
    assert found.load.forecast.errors.mean() <= 0.015
    assert found.load.forecast.errors.max() <= 0.06
    assert found.load.forecast.coverage >= 0.9


def test_the_mooncake_hour_is_predicted_and_its_synthetic_sibling_drifts(traces):
    """Off by at most 0.015 on average and 0.06 anywhere, nine of ten intervals hold; the other is told."""
    hour, synthetic = (
        chains_of(read_trace(traces / f"mooncake_{name}.parquet")) for name in ("conversation", "synthetic")
    )
    found, drifts = (
        hold_out(
            chains,
            np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 40).astype(np.int64)),
            np.random.default_rng(1),
        )
        for chains in (hour, synthetic)
    )

    assert found.errors.mean() <= 0.015
    assert found.errors.max() <= 0.06
    assert found.coverage >= 0.9
    assert not found.drift.found
    assert drifts.drift.found
