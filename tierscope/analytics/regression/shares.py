"""What tiers usually serve of what could be reused, by how long ago it was asked for.

Two tables. By the distance on the engine itself: what its caches do with what the router brings them. By the
distance in the whole fleet, which the prompts alone decide: what router and caches do together. The first
explains what was served but for a tier that lost hits; how far the two are apart is the router's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.observations import Observations
from tierscope.domain.trace import FloatArray

SMOOTHING_REQUESTS = 1.0
"""Neighbouring distances are held alike with the weight of so many requests."""


class UsualShares(NamedTuple):
    """Share that L0, L1 and L2 serve of tokens at a distance: `fleet` (DISTANCES, 3), `own` a row more."""

    fleet: FloatArray
    own: FloatArray

    def served(self, seen: Observations, *, placed: bool) -> FloatArray:
        """Tokens that tiers would usually serve: (n, 3); `placed` where requests really went."""
        found: FloatArray = seen.own @ self.own if placed else seen.fleet @ self.fleet
        return found


def usual_shares(past: Observations) -> UsualShares:
    """By least squares on tokens, smooth over distance; tiers serve no less than none, no more than all."""
    served = past.served()
    return UsualShares(_fitted(past.fleet, served), _fitted(past.own, served))


def _fitted(reusable: FloatArray, served: FloatArray) -> FloatArray:
    distances = reusable.shape[1]
    apart = np.diff(np.eye(distances), axis=0)
    typical = float((reusable.sum(axis=1) ** 2).mean())
    known = reusable.T @ reusable + SMOOTHING_REQUESTS * typical * apart.T @ apart
    # A hair on the diagonal: with nothing reusable at all there is nothing to solve.
    found = np.linalg.solve(known + (1e-9 * typical + 1e-9) * np.eye(distances), reusable.T @ served)
    found = np.clip(found, 0, 1)
    shares: FloatArray = found / np.maximum(found.sum(axis=1, keepdims=True), 1.0)
    return shares
