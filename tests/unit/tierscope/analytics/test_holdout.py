"""The hold-out on workloads that stay, and on workloads that change under it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drifting import KINDS, generated, interleaved
from tierscope.analytics.holdout import Holdout, hold_out
from tierscope.domain.errors import BadInput


def held_out(kind: str, seed: int) -> Holdout:
    chains = generated(kind, np.random.default_rng(seed))
    sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 12).astype(np.int64))
    return hold_out(chains, sizes, np.random.default_rng(seed))


def test_a_workload_that_stays_is_predicted_inside_its_intervals():
    """Eight worlds: in most, four intervals of five hold what came, and errors are under 3 points."""
    found = [held_out("stationary", seed) for seed in range(8)]

    assert np.median([one.coverage for one in found]) >= 0.8
    assert np.median([one.errors.mean() for one in found]) < 0.03
    assert not any(one.drift.found for one in found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_that_changes_is_told(kind):
    """Whether reuse fades, grows, or jumps while it is watched."""
    assert held_out(kind, 1).drift.found


def test_intervals_of_a_workload_that_drifts_reach_as_far_as_it_would_go():
    """Reuse that fades on as it did is inside: in three worlds nine sizes of ten, where errors are large."""
    found = [held_out("fading", seed) for seed in range(3)]

    assert all(one.drift.found for one in found)
    assert min(one.errors.max() for one in found) > 0.15
    assert np.median([one.coverage for one in found]) >= 0.9


def test_intervals_of_a_workload_that_drifts_hold_at_any_load_it_saw():
    """Sessions rise from 4 to 20 and are 6 afterwards: told as drift, and every size is inside."""
    chains, session = interleaved(
        np.random.default_rng(0), lambda at: round(4 + 32 * at) if at < 0.5 else 6, requests=4000
    )
    sizes = np.unique(np.geomspace(0.002 * chains.n_ids, chains.n_ids, 12).astype(np.int64))
    found = hold_out(chains, sizes, np.random.default_rng(0), session)
    unknown = hold_out(chains, sizes, np.random.default_rng(0))

    assert found.drift.found
    assert found.coverage == 1.0
    assert unknown.coverage < 1.0


def test_intervals_hold_the_prediction_and_lie_between_none_and_all():
    """Low, value, high; shares of what was asked."""
    found = held_out("stationary", 1)

    assert np.all((found.interval.low <= found.predicted) & (found.predicted <= found.interval.high))
    assert found.interval.low.min() >= 0
    assert found.interval.high.max() <= 1
    assert np.all(np.diff(found.predicted) >= 0)


def test_too_few_requests_are_refused():
    """With what is needed."""
    chains = generated("stationary", np.random.default_rng(1), requests=100)

    with pytest.raises(BadInput, match="100 requests are too few"):
        hold_out(chains, np.array([10]), np.random.default_rng(1))
