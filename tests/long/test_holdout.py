"""Drift told and not told, a hundred workloads of each kind; hold-out and advice on the public traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.drifting import KINDS, generated, interleaved
from tests.long_sample import SAMPLED
from tierscope.advice.document import FindingKind, Status
from tierscope.advice.recommend import recommend
from tierscope.advice.replay import replayed
from tierscope.analytics.chains import chains_of
from tierscope.analytics.holdout import hold_out
from tierscope.cli.spread import spread
from tierscope.domain.deployment import Deployment, RoutingPolicy, TierConfig
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import Trace
from tierscope.domain.units import GIB
from tierscope.domain.window import Evidence
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


@pytest.fixture(scope="module")
def claude(traces) -> Trace:
    """The sessions, begun within twelve hours."""
    return spread(read_trace(traces / "claude_code_sessions.parquet"), 12, 1)


def beginning(trace: Trace, requests: int) -> Trace:
    """The first requests of a trace."""
    blocks = int(trace.offsets[requests])
    each = ("at_ms", "input_tokens", "output_tokens", "session")
    return replace(
        trace,
        offsets=trace.offsets[: requests + 1],
        block_ids=trace.block_ids[:blocks],
        **{name: getattr(trace, name)[:requests] for name in each},
    )


def test_claude_drifts_and_is_predicted_for_the_load_that_comes(claude):
    """Its second half has the end of all sessions: told how many take turns, it is off by 0.015 and 0.06."""
    chains = chains_of(claude)
    sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 40).astype(np.int64))
    found = hold_out(chains, sizes, np.random.default_rng(1), claude.session)

    assert found.drift.found
    assert found.coverage >= 0.9
    assert found.load.forecast.errors.mean() <= 0.015
    assert found.load.forecast.errors.max() <= 0.06
    assert found.load.forecast.coverage >= 0.9


def served(trace: Trace, l1: TierConfig, l2_bytes: float = 512 * GIB) -> tuple[Evidence, Deployment]:
    """A trace as one replica with such an L1 and such a pool would have recorded it."""
    tiers = (TierConfig(Tier.L0, 8 * GIB), l1, TierConfig(Tier.L2, l2_bytes))
    deployment = Deployment("default", "demo", "qwen2.5-7b", 1, RoutingPolicy.SESSION, tiers)
    return replayed(trace, replace(deployment, bytes_per_token=57_344.0, l1_keeps_loads=True))


def test_advice_on_claude_says_drift_where_its_sizes_feel_it(claude):
    """An L1 that may not grow serves the end otherwise than the beginning: nothing is advised from that."""
    found = recommend(*served(claude, TierConfig(Tier.L1, 64 * GIB, 64 * GIB)), now_unix_seconds=0.0)

    assert found.evidence.drift
    assert found.status is Status.INSUFFICIENT_EVIDENCE
    assert FindingKind.DRIFT in {finding.kind for finding in found.findings}
    assert not found.changes


def test_advice_from_claudes_first_half_holds_in_its_second(claude):
    """Sizes that hold a session's blocks whatever the load do not feel the drift."""
    half = claude.requests // 2
    advice = recommend(*served(beginning(claude, half), TierConfig(Tier.L1, 64 * GIB)), now_unix_seconds=0.0)
    sizes = {change.target: float(change.to) for change in advice.changes}
    window = served(claude, TierConfig(Tier.L1, sizes["l1"]), sizes["l2"])[0].window
    came = 1 - window.computed[half:].sum() / window.prompt[half:].sum()

    foretold = advice.changes[-1].predicted.hit_ratio.total
    assert not advice.evidence.drift
    assert foretold.low <= came <= foretold.high


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
