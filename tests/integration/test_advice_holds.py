"""Advice applied: what the testbed's engines do with the advised sizes, against what was foretold.

The testbed's engine model shares no code with the one that advises, and does what it leaves out: chunk
tails, pinned blocks, generated tokens in the cache, refused stores, eviction by watermark.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fleet_records import run_fleet
from tierscope.advice.document import FindingKind, Recommendation, Status
from tierscope.advice.history import History
from tierscope.advice.predictions import Estimate
from tierscope.advice.recommend import recommend
from tierscope.domain.window import Evidence
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

POINTS = 0.03
"""A prediction may be off by this much in hit ratio beyond its interval."""


def advise(config: TestbedConfig, evidence: Evidence) -> Recommendation:
    return recommend(evidence, Testbed(config).deployment(), now_unix_seconds=0.0)


def applied(config: TestbedConfig, document: Recommendation) -> TestbedConfig:
    return replace(config, **{f"{change.target}_bytes": change.to for change in document.changes})


def assert_near(estimate: Estimate, attained: float, slack: float) -> None:
    assert estimate.low - slack <= attained <= estimate.high + slack


@pytest.mark.parametrize(
    "config",
    [
        TestbedConfig(duration_seconds=2400.0),
        TestbedConfig(duration_seconds=2400.0, replicas=2, l1_bytes=16 * 2**30, seed=5),
    ],
    ids=["four replicas", "two replicas"],
)
def test_advised_sizes_bring_what_was_foretold_and_satisfy_afterwards(config):
    """Hits by tier and TTFT come out as predicted, and the next advice is to leave things as they are."""
    document = advise(config, run_fleet(config))
    better = applied(config, document)
    after = run_fleet(better)

    assert document.status is Status.RECOMMEND
    predicted = document.changes[-1].predicted
    first = History(after.window.prompt).first_measured
    total = after.window.prompt[first:].sum()
    for estimate, tokens in (
        (predicted.hit_ratio.l0, after.window.l0),
        (predicted.hit_ratio.l1, after.window.l1),
        (predicted.hit_ratio.l2, after.window.l2),
        (predicted.hit_ratio.total, after.window.prompt - after.window.computed),
    ):
        assert_near(estimate, tokens[first:].sum() / total, POINTS)
    p50, p90 = np.quantile(after.window.ttft_seconds[first:], (0.5, 0.9))
    assert_near(predicted.ttft_p50_seconds, p50, 0.05 * p50)
    assert_near(predicted.ttft_p90_seconds, p90, 0.05 * p90)
    assert advise(better, after).status is Status.NO_CHANGE


def test_an_l1_that_drops_its_loads_is_reported_and_not_grown():
    """LMCache's default prefetch policy makes a larger L1 useless over a shared pool; the fix is named."""
    config = TestbedConfig(duration_seconds=1200.0, l1_retain_loads=False)
    document = advise(config, run_fleet(config))

    assert FindingKind.L1_DROPS_LOADS in [finding.kind for finding in document.findings]
    assert all(change.to <= change.from_ for change in document.changes if change.target == "l1")


def test_a_pool_that_fills_up_and_never_evicts_is_reported():
    """A small pool without a time to live refuses all that is new, and hits fall behind the model."""
    config = TestbedConfig(duration_seconds=2400.0, l2_bytes=48 * 2**30, l2_ttl_seconds=None)
    document = advise(config, run_fleet(config))

    assert FindingKind.L2_NEVER_EVICTS in [finding.kind for finding in document.findings]
    assert all(change.target != "l2" or change.to >= change.from_ for change in document.changes)
