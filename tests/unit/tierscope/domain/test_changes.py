"""When a deployment became another one."""

from __future__ import annotations

from dataclasses import replace

from tierscope.domain.deployment import Deployment, DeploymentSince, RoutingPolicy, TierConfig
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan, changes_within

FIRST = Deployment("ns", "chat", "m", 2, tiers=(TierConfig(Tier.L1, 8.0, limit_bytes=96.0),))


def test_what_serves_otherwise_is_a_change_and_what_only_scales_is_none():
    """Replicas and limits come and go; a size, a policy or a model makes another deployment."""
    known = [
        FIRST,
        replace(FIRST, replicas=5),
        replace(FIRST, tiers=(TierConfig(Tier.L1, 8.0, limit_bytes=90.0),)),
        replace(FIRST, tiers=(TierConfig(Tier.L1, 4.0),)),
        replace(FIRST, tiers=(TierConfig(Tier.L1, 4.0),), routing=RoutingPolicy.SESSION),
    ]
    rows = [DeploymentSince(10.0 * number, one) for number, one in enumerate(known)]

    assert changes_within(rows, TimeSpan(0.0, 100.0)) == (30.0, 40.0)
    assert changes_within(rows, TimeSpan(0.0, 40.0)) == (30.0,)
    assert changes_within(rows[:1], TimeSpan(0.0, 40.0)) == ()
