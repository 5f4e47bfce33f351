"""Requests whose costs a token are planted, noise of several kinds, and how well anyone could find them."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from typing import NamedTuple

import numpy as np

TRUE = np.array([0.025, 9e-5, 5e-6, 2.5e-5])
"""Seconds: fixed, and for a computed, an L1 and an L2 token."""
OUTLIER_SHARE = 0.05
OUTLIERS = (3.0, 10.0)
"""Times an outlier takes as long."""
GRID = np.linspace(-3, 5, 16_001)


def in_both(n: int, rng: np.random.Generator) -> np.ndarray:
    """Tokens by origin of prompts whose cached part lies partly in L1, partly in L2."""
    prompt = rng.lognormal(8, 1, n)
    hit = prompt * rng.beta(0.5, 0.5, n)
    l1 = hit * rng.random(n)
    return np.column_stack((prompt - hit, l1, hit - l1))


def in_either(n: int, rng: np.random.Generator) -> np.ndarray:
    """The same, but each prompt's cached part lies in one of the two."""
    prompt = rng.lognormal(8, 1, n)
    hit = prompt * rng.beta(0.5, 0.5, n)
    of_l1 = rng.random(n) < 0.5
    return np.column_stack((prompt - hit, hit * of_l1, hit * ~of_l1))


class Noise(NamedTuple):
    """Factors on a request's time, and the density of their logarithm."""

    draw: Callable[[int, np.random.Generator], np.ndarray]
    density: Callable[[np.ndarray], np.ndarray]


def _log_normal(sigma: float) -> Noise:
    return Noise(
        lambda n, rng: rng.lognormal(0, sigma, n),
        lambda x: np.exp(-((x / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi)),
    )


def _gamma(shape: float) -> Noise:
    return Noise(
        lambda n, rng: rng.gamma(shape, 1 / shape, n),
        lambda x: np.exp(shape * (x + np.log(shape)) - shape * np.exp(x) - lgamma(shape)),
    )


def _laplace(sigma: float) -> Noise:
    scale = sigma / np.sqrt(2)
    return Noise(
        lambda n, rng: np.exp(rng.laplace(0, scale, n)),
        lambda x: np.exp(-np.abs(x) / scale) / (2 * scale),
    )


NOISES = {
    "log-normal 10 %": _log_normal(0.1),
    "log-normal 20 %": _log_normal(0.2),
    "log-normal 25 %": _log_normal(0.25),
    "gamma 20 %": _gamma(25),
    "Laplace 20 %": _laplace(0.2),
}


def seconds_of(tokens: np.ndarray, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    """Times of requests, one in twenty an outlier."""
    n = len(tokens)
    outlier = np.where(rng.random(n) < OUTLIER_SHARE, rng.uniform(*OUTLIERS, n), 1.0)
    return (TRUE[0] + tokens @ TRUE[1:]) * noise.draw(n, rng) * outlier


def least_errors(tokens: np.ndarray, noise: Noise) -> np.ndarray:
    """Median errors below which no unbiased estimate of the costs comes, as shares of them (Cramér and Rao).

    The logarithm of a time is that of its expectation plus noise, so a row tells of each cost by the share
    it has of its expectation; how much, the Fisher information of the noise says.
    """
    density = np.maximum(_with_outliers(noise), 1e-300)
    information = np.trapezoid(np.gradient(density, GRID) ** 2 / density, GRID)
    rows = np.column_stack((np.ones(len(tokens)), tokens)) * TRUE
    shares = rows / rows.sum(axis=1, keepdims=True)
    return 0.6745 * np.sqrt(np.diag(np.linalg.inv(shares.T @ shares * information)))


def median_costs(noise: Noise) -> np.ndarray:
    """The planted costs as the median request has them: outliers, all slower, move it."""
    share = np.cumsum(_with_outliers(noise)) * (GRID[1] - GRID[0])
    return TRUE * np.exp(GRID[np.searchsorted(share, 0.5)])


def _with_outliers(noise: Noise) -> np.ndarray:
    slower = np.log(np.linspace(*OUTLIERS, 100))
    outliers = np.mean([noise.density(GRID - by) for by in slower], axis=0)
    return (1 - OUTLIER_SHARE) * noise.density(GRID) + OUTLIER_SHARE * outliers
