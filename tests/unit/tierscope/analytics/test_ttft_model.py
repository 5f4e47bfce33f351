"""The TTFT model against planted truth: slopes, intervals, p90, and when it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.planted_costs import NOISES, TRUE, median_costs
from tests.unit.tierscope.analytics.test_ttft import requests
from tierscope.analytics.ttft_model import break_even_bytes_per_second, model_ttft

SEEDS = 30
MEDIAN = median_costs(NOISES["log-normal 20 %"])


def modelled(n, seed, *, queue=0.0):
    tokens, seconds = requests(n, np.random.default_rng(seed))
    return model_ttft(tokens, seconds + queue, np.full(n, queue))


def test_planted_slopes_are_found_and_lie_in_their_intervals():
    """1,000 requests, 5 % of them outliers: 95 % intervals hold the truth in at least 85 % of 30 worlds."""
    models = [modelled(1000, seed) for seed in range(SEEDS)]
    errors = np.median([np.abs(model.median.coefficients / TRUE - 1) for model in models], axis=0)
    inside = np.mean([(model.low <= MEDIAN) & (model.high >= MEDIAN) for model in models], axis=0)

    assert errors[[1, 3]].max() < 0.05
    assert inside.min() >= 0.85
    assert not any(model.problems for model in models)


def test_nine_of_ten_requests_lie_below_the_p90():
    """Of worlds it has not seen, and half of them below the median."""
    models = [modelled(2000, seed) for seed in range(4)]
    unseen = [requests(2000, np.random.default_rng(100 + seed)) for seed in range(4)]
    below = {
        name: np.mean(
            [
                np.mean(seconds <= getattr(model, name).seconds(tokens))
                for model, (tokens, seconds) in zip(models, unseen, strict=True)
            ]
        )
        for name in ("p90", "median")
    }

    assert below["p90"] == pytest.approx(0.9, abs=0.02)
    assert below["median"] == pytest.approx(0.5, abs=0.03)


def test_a_model_says_when_it_does_not_hold():
    """Too few requests, noise without tokens, a queue, and columns that are one."""
    rng = np.random.default_rng(0)
    tokens, seconds = requests(500, rng)
    doubled = np.column_stack((tokens[:, 0], tokens[:, 1], tokens[:, 1] * 2.0))
    noise = np.exp(rng.normal(0, 3, 500))

    assert "3 requests are too few" in model_ttft(tokens[:3], seconds[:3], np.zeros(3)).problems[0]
    assert any("200 are needed" in problem for problem in modelled(100, 0).problems)
    assert any("off by more" in problem for problem in model_ttft(tokens, noise, np.zeros(500)).problems)
    assert any("in the queue" in problem for problem in modelled(500, 0, queue=60.0).problems)
    assert any("rise and fall" in p for p in model_ttft(doubled, seconds, np.zeros(500)).problems)


def test_the_load_rate_at_which_computing_is_as_fast():
    """UD-51: 64K tokens take 12 s to compute, 7.6 s to load at 1.25 GB/s: break-even is at 0.79 GB/s."""
    tokens = 64 * 1024
    rate = break_even_bytes_per_second(7.6 * 1.25e9 / tokens, 12 / tokens)

    assert rate == pytest.approx(0.79e9, rel=0.01)
    assert break_even_bytes_per_second(1.0, 0.0) is None
    assert modelled(1000, 0).break_even_bytes_per_second(57_344) == pytest.approx(57_344 / TRUE[1], rel=0.1)
