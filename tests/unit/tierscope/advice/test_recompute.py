"""L2 is said to be slower than computing only where its cost is known to be."""

from __future__ import annotations

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.readings import read_tiers
from tierscope.advice.replay import as_modelled
from tierscope.advice.sizing.latency import ttft_model
from tierscope.advice.sizing.recompute import SlowPool, recompute_findings, slow_pool
from tierscope.advice.study import Study, study_of
from tierscope.domain.wiring import Wiring

COMPUTED = 1e-4
CHUNK = w.CHUNK_BYTES


def study(l2_seconds: float, noise: float = 0.1, **fields: object) -> Study:
    """Documents of many lengths on two replicas that find them in each other's L2."""
    rng = np.random.default_rng(1)
    chains = [w.chain_hashes(i, 4 + 4 * (i % 8)) for i in rng.integers(0, 200, 2000)]
    deployment = w.deployment(40 * CHUNK, 600 * CHUNK, replicas=2, **fields)
    window = as_modelled(w.evidence(w.window(chains, replicas=2)), deployment).window
    seconds = 0.02 + COMPUTED * window.computed + 1e-5 * window.l1 + l2_seconds * window.l2
    seconds = seconds * rng.lognormal(0, noise, len(seconds))
    hits = (window.l0, window.l1, window.l2)
    evidence = w.evidence(w.window(chains, replicas=2, hits=hits, ttft_seconds=seconds))
    return study_of(evidence, deployment, read_tiers(evidence, deployment), w.CHUNK_TOKENS)


def pool_of(found: Study) -> SlowPool | None:
    return slow_pool(found, ttft_model(found.window, found.history.first_measured))


def test_a_slow_pool_is_told_with_the_rate_it_would_have_to_load_at():
    """UD-51: 1,024 bytes a token at 0.1 ms to compute are 9.8 MiB/s; L2 gives a quarter of that."""
    found = study(4 * COMPUTED, noise=0.001)
    [finding] = recompute_findings(found, pool_of(found))

    assert "pays from 9.8 MiB/s on" in finding.evidence
    assert "loads 2.4 MiB/s" in finding.evidence


@pytest.mark.parametrize("l2_seconds", [1e-5, 0.9 * COMPUTED, COMPUTED])
def test_a_pool_that_pays_or_may_is_left_alone(l2_seconds):
    """Nothing is said where loading is faster, or as fast within the noise."""
    assert pool_of(study(l2_seconds)) is None


def test_without_times_nothing_is_said():
    """No TTFT, no cost of a token."""
    assert pool_of(study(4 * COMPUTED)) is not None
    assert pool_of(study(float("nan"))) is None


def test_the_step_is_a_patch_where_the_resource_is_known():
    """The switch of the custom resource."""
    found = study(4 * COMPUTED, wiring=Wiring())
    [finding] = recompute_findings(found, pool_of(found))

    assert finding.apply[0].document == [
        {"op": "add", "path": "/spec/kvCacheSpec/enableL2Cache", "value": False}
    ]
