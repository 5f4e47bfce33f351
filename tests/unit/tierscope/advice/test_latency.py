"""TTFT at other sizes: re-priced from the records, or absent with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.recommend import recommend

CHUNK = w.CHUNK_BYTES
COSTS = np.array([1e-3, 1e-4, 3e-4])
"""Seconds for a computed, an L1 and an L2 token."""


def seconds_of(window, rng) -> np.ndarray:
    tokens = np.column_stack((window.computed, window.l1, window.l2))
    return (0.02 + tokens @ COSTS) * rng.lognormal(0, 0.1, window.requests)


def test_the_ttft_after_a_change_is_foretold():
    """Costs are planted; what the advised sizes really give lies in the interval: p50, p90 and mean."""
    rng = np.random.default_rng(5)
    chains = w.drawn(300, 8000, rng)
    deployment = w.deployment(100 * CHUNK)
    evidence = w.served(w.window(chains[:4000]), deployment)
    evidence = replace(
        evidence, window=replace(evidence.window, ttft_seconds=seconds_of(evidence.window, rng))
    )
    [change] = recommend(evidence, deployment, now_unix_seconds=w.NOW).changes

    after = w.served(w.window(chains), w.deployment(change.to)).window
    seconds, said = seconds_of(after, rng)[4000:], change.predicted
    for estimate, true in (
        (said.ttft_p50_seconds, np.quantile(seconds, 0.5)),
        (said.ttft_p90_seconds, np.quantile(seconds, 0.9)),
        (said.ttft_mean_seconds, seconds.mean()),
    ):
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.value == pytest.approx(true, rel=0.1)


def test_queue_time_is_kept_and_not_priced():
    """A queue of a second before every request stays a second, whatever the tiers serve."""
    rng = np.random.default_rng(5)
    deployment = w.deployment(100 * CHUNK)
    evidence = w.served(w.window(w.drawn(300, 4000, rng)), deployment)
    window = evidence.window
    waited = replace(window, queue_seconds=np.full(4000, 1.0), ttft_seconds=1.0 + seconds_of(window, rng))
    [change] = recommend(replace(evidence, window=waited), deployment, now_unix_seconds=w.NOW).changes

    assert 1.0 < change.predicted.ttft_p50_seconds.value < 1.3


@pytest.mark.parametrize(
    ("l1_bytes", "records", "reason"),
    [
        (100 * CHUNK, 100, "70 records have a TTFT and 200 are needed"),
        (1 * CHUNK, 4000, "too few requests were served from L1"),
    ],
    ids=["records", "unpriced"],
)
def test_where_it_cannot_be_told_the_reason_is_given(l1_bytes, records, reason):
    """Null, not a guess: too few records, or a tier that never served and so has no price."""
    rng = np.random.default_rng(5)
    deployment = w.deployment(l1_bytes)
    evidence = w.served(w.window(w.drawn(300, 4000, rng)), deployment)
    ttft = seconds_of(evidence.window, rng)
    ttft[: 4000 - (records * 7 // 10 if records < 4000 else records)] = np.nan
    window = replace(evidence.window, ttft_seconds=ttft)
    [change] = recommend(replace(evidence, window=window), deployment, now_unix_seconds=w.NOW).changes

    assert change.predicted.ttft_p50_seconds is None
    assert reason in change.why


def test_noise_that_tokens_do_not_explain_gives_no_prediction():
    """TTFT all over the place is queueing or something else; the fit says so."""
    rng = np.random.default_rng(5)
    deployment = w.deployment(100 * CHUNK)
    evidence = w.served(w.window(w.drawn(300, 4000, rng)), deployment)
    window = replace(evidence.window, ttft_seconds=rng.lognormal(0, 2, 4000))
    [change] = recommend(replace(evidence, window=window), deployment, now_unix_seconds=w.NOW).changes

    assert change.predicted.ttft_p90_seconds is None
    assert "tokens by tier explain TTFT only to" in change.why
