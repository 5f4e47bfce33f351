"""The TTFT fit finds planted costs through noise that is not kind."""

from __future__ import annotations

import numpy as np
import pytest

from tests.planted_costs import NOISES, TRUE, in_both, seconds_of
from tierscope.analytics.ttft import fit_ttft


def requests(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Token columns and times with 20 % log-normal noise and 5 % outliers of three to ten times."""
    tokens = in_both(n, rng)
    return tokens, seconds_of(tokens, NOISES["log-normal 20 %"], rng)


def test_planted_costs_are_found_despite_outliers():
    """With 2,000 requests a computed and an L2 token are priced to 10 % nine times of ten."""
    errors = []
    for seed in range(20):
        fit = fit_ttft(*requests(2000, np.random.default_rng(seed)))
        errors.append(np.abs(fit.coefficients / TRUE - 1))

    assert np.quantile(errors, 0.9, axis=0)[[1, 3]].max() < 0.10


def test_no_cost_is_negative():
    """A column that only lowers the time gets no cost, and the others are fitted without it."""
    rng = np.random.default_rng(0)
    tokens = rng.uniform(0, 1000, (500, 2))
    fit = fit_ttft(tokens, 1.0 + 0.001 * tokens[:, 0] - 0.0002 * tokens[:, 1])

    assert fit.coefficients[2] == 0
    assert fit.coefficients[1] == pytest.approx(0.001, rel=0.1)


def test_an_exact_line_is_found_exactly():
    """Without noise nothing is left over."""
    tokens = np.random.default_rng(0).uniform(0, 1000, (100, 3))
    fit = fit_ttft(tokens, TRUE[0] + tokens @ TRUE[1:])

    assert fit.coefficients == pytest.approx(TRUE, rel=1e-5)
    assert fit.error_ratio < 1e-6


def test_an_unused_origin_costs_nothing():
    """A column of zeros has no cost and breaks nothing."""
    tokens = np.column_stack((np.arange(1.0, 51.0), np.zeros(50)))
    fit = fit_ttft(tokens, 0.5 + tokens[:, 0])

    assert fit.coefficients == pytest.approx([0.5, 1.0, 0.0], abs=1e-6)
