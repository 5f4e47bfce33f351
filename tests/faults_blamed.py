"""Which fault of the testbed must be blamed on whom."""

from __future__ import annotations

from typing import NamedTuple

from tierscope.analytics.regression.attribution import Attribution, Cause, Reason
from tierscope.domain.tiers import Tier
from tierscope.testbed.config import IncidentKind


class Blamed(NamedTuple):
    """Any of the causes will do; tier and reason are one."""

    causes: frozenset[Cause]
    tier: Tier | None
    reason: Reason

    def fits(self, found: Attribution) -> bool:
        """Whether what was found is this."""
        return found.cause in self.causes and (found.tier, found.reason) == (self.tier, self.reason)


WHO: dict[IncidentKind, Blamed] = {
    IncidentKind.L2_SLOW: Blamed(frozenset({Cause.TIER_SPEED}), Tier.L2, Reason.SLOW),
    # It takes chunks and bandwidth along: either may be felt first.
    IncidentKind.L2_WORKER_LOST: Blamed(
        frozenset({Cause.TIER_SHARE, Cause.TIER_SPEED}), Tier.L2, Reason.WORKER_LOST
    ),
    IncidentKind.L1_SHRUNK: Blamed(frozenset({Cause.TIER_SHARE}), Tier.L1, Reason.EVICTIONS),
    IncidentKind.SEED_MISMATCH: Blamed(frozenset({Cause.TIER_SHARE}), Tier.L2, Reason.SEED),
    IncidentKind.ROUTER_CHANGED: Blamed(frozenset({Cause.TIER_SHARE}), Tier.L0, Reason.ROUTING),
    IncidentKind.QUEUE: Blamed(frozenset({Cause.QUEUE}), None, Reason.NONE),
    IncidentKind.ENGINE_SLOW: Blamed(frozenset({Cause.ENGINE}), None, Reason.NONE),
}
