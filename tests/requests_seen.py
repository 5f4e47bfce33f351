"""Observations drawn from a known model, for the detector's tests."""

from __future__ import annotations

import numpy as np

from tierscope.analytics.regression.observations import DISTANCES, Observations

FIXED, COMPUTED, L1, L2 = 0.03, 1e-4, 3e-6, 3e-5
"""Seconds, and seconds a token."""
NEAR = 8
"""The distance at which everything was asked for last."""


def draw(
    rng: np.random.Generator,
    n: int,
    *,
    at: float = 0.0,
    engine: float = 1.0,
    l2_speed: float = 1.0,
    queue_seconds: float = 0.0,
    prompts: float = 1.0,
    repeats: float = 1.0,
    l1_kept: float = 1.0,
    computed_anew: float = 0.0,
    seeds_differ: bool = False,
    affinity: float = 0.5,
    noise: float = 0.3,
) -> Observations:
    """Requests a second apart from `at` on: L0 and L1 serve what came here before, L2 what came elsewhere.

    What L1 does not keep L2 serves, but for the share `computed_anew`, which nobody has; with seeds that
    differ nobody finds what only others were asked for.
    """
    prompt = prompts * rng.lognormal(7.5, 0.6, n)
    reusable = prompt * np.where(rng.random(n) < 0.7 * repeats, rng.uniform(0.5, 0.95, n), 0.0)
    here = np.where(rng.random(n) < affinity, reusable, 0.0)
    elsewhere = reusable - here
    l0, l1 = 0.6 * here, 0.4 * here * l1_kept * (1 - computed_anew)
    found = np.zeros(n) if seeds_differ else elsewhere
    l2 = found + 0.4 * here * (1 - l1_kept)
    computed = prompt - l0 - l1 - l2
    load = (L1 * l1 + L2 * l2 * l2_speed) * rng.lognormal(0, 0.1, n)
    queue = rng.exponential(0.002 + queue_seconds, n)
    work = engine * (FIXED + COMPUTED * computed) * rng.lognormal(0, noise, n)
    return Observations(
        at + np.arange(n, dtype=float), l0, l1, l2, np.zeros(n), computed,
        queue, load, queue + load + work, *reused(here, elsewhere),
    )  # fmt: skip


def reused(here: np.ndarray, elsewhere: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (n,) that this engine and that only others were asked for, by distance in fleet and engine."""
    fleet, own = np.zeros((len(here), DISTANCES)), np.zeros((len(here), DISTANCES + 1))
    fleet[:, NEAR], own[:, NEAR], own[:, -1] = here + elsewhere, here, elsewhere
    return fleet, own
