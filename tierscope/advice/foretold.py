"""What is foretold of a change that nobody advised, from the requests before it.

Platform teams also size tiers by their own lights, and what came of that shows as well as any advice how far
predictions can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tierscope.advice.predictions import Predicted
from tierscope.advice.what_if import what_if
from tierscope.domain.deployment import Deployment, DeploymentSince
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence, TimeSpan

HISTORY_SECONDS = 6 * 3600.0
"""Longest span before a change that its prediction rests on."""
MOST_FORETOLD = 10
"""Changes of an endpoint that are foretold, the newest: each takes as long as a what-if."""
MOST_KEPT = 1000
"""Predictions that are kept, of all endpoints together."""
SAME_SIZE_RATIO = 0.02
"""Sizes are set in whole GiB or MiB, so what was set may differ from what was meant by so much."""
RESIZED = (Tier.L1, Tier.L2)
DECIDES = ("model", "replicas", "routing", "tensor_parallel", "l1_keeps_loads")
"""What else of a configuration decides what its tiers serve."""

_Change = tuple[tuple[str, str], float, float]
"""Whose, and when the two configurations were first in force."""

Foretell = Callable[[DeploymentSince, DeploymentSince], Predicted | None]
"""What the second of two configurations was to bring over the first; None where nothing can be said."""


class EvidenceReader(Protocol):
    """What is kept of an endpoint, as far as a prediction rests on it."""

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        """All that advice on the endpoint may rest on."""
        ...


class Foretold:
    """Foretells changes by a what-if on what was asked just before, each once: that stays as it was."""

    def __init__(self) -> None:
        self._known: dict[_Change, Predicted | None] = {}

    def of(self, records: EvidenceReader, who: tuple[str, str]) -> Foretell:
        """Foretell the newest changes of one endpoint, asked for from the newest on."""
        asked = 0

        def foretell(before: DeploymentSince, after: DeploymentSince) -> Predicted | None:
            nonlocal asked
            sizes = resized(before.deployment, after.deployment)
            if not sizes or asked >= MOST_FORETOLD:
                return None
            asked += 1
            change = (who, before.since_unix_seconds, after.since_unix_seconds)
            if change not in self._known:
                while len(self._known) >= MOST_KEPT:
                    del self._known[next(iter(self._known))]
                end = after.since_unix_seconds
                span = TimeSpan(max(before.since_unix_seconds, end - HISTORY_SECONDS), end)
                evidence = records.evidence(*who, span)
                self._known[change] = what_if(evidence, before.deployment, sizes).predicted
            return self._known[change]

        return foretell


def resized(before: Deployment, after: Deployment) -> dict[Tier, float]:
    """Sizes of L1 and L2 that differ, in bytes of one holder, 0 for a tier that is gone.

    Nothing where what else decides what tiers serve differs too: the difference is not that of the sizes.
    """
    if any(getattr(before, name) != getattr(after, name) for name in DECIDES):
        return {}
    if not _same(_bytes(before, Tier.L0), _bytes(after, Tier.L0)):
        return {}
    sizes = {tier: (_bytes(before, tier), _bytes(after, tier)) for tier in RESIZED}
    return {tier: then for tier, (now, then) in sizes.items() if not _same(now, then)}


def _bytes(deployment: Deployment, tier: Tier) -> float:
    config = deployment.tier(tier)
    return 0.0 if config is None else config.capacity_bytes


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_SIZE_RATIO * max(one, other)
