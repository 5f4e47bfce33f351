"""What more or less of a tier would serve, how fast pools fill, what the advice says."""

from __future__ import annotations

from dashboards.promql import Matcher, gauge, one_of
from dashboards.rules.recording import POOL_CAPACITY, POOL_USED, recorded
from dashboards.variables import HERE, HOLDER_LABELS, OWNER, OWNER_LABELS
from tierscope.domain.tiers import Tier
from tierscope.registry.advice_metrics import (
    ADVICE_AGE_SECONDS,
    ADVICE_STATUS,
    ADVISED_CAPACITY_BYTES,
    ADVISED_HIT_RATIO,
    GHOST_HIT_RATIO,
)

AHEAD_SECONDS = 24 * 3600


def ghost_hit_ratio(tier: Tier, scale: Matcher) -> str:
    """Hit ratio that a tier would have at so many times its size, of the endpoint that would gain most."""
    return f"max by (scale) ({gauge(GHOST_HIT_RATIO, OWNER, tier=tier, scale=scale)})"


def ghost_by_endpoint(tier: Tier, scale: str) -> str:
    """The same by endpoint, for one size."""
    return one_of("max", gauge(GHOST_HIT_RATIO, OWNER, tier=tier, scale=scale), *OWNER_LABELS)


def advised_bytes(tier: Tier) -> str:
    """Size of one holder of a tier today, and the one advised, by endpoint."""
    return one_of("max", gauge(ADVISED_CAPACITY_BYTES, OWNER, tier=tier), *OWNER_LABELS, "point")


def advised_hit_ratio(point: str) -> str:
    """Hit ratio expected of each tier and those above it, today or as advised, by endpoint."""
    return one_of("max", gauge(ADVISED_HIT_RATIO, OWNER, point=point), *OWNER_LABELS, "tier")


def advice_status() -> str:
    """What the latest advice on each endpoint says in one word."""
    return f"{one_of('max', gauge(ADVICE_STATUS, OWNER), *OWNER_LABELS, 'status')} == 1"


def advice_age() -> str:
    """Seconds since the advice on each endpoint was computed."""
    return one_of("max", gauge(ADVICE_AGE_SECONDS, OWNER), *OWNER_LABELS)


def pool_used() -> str:
    """Bytes in use of each pool."""
    return one_of("max", recorded(POOL_USED, HERE), *HOLDER_LABELS)


def pool_capacity() -> str:
    """Size of each pool."""
    return one_of("max", recorded(POOL_CAPACITY, HERE), *HOLDER_LABELS)


def pool_tomorrow() -> str:
    """Bytes in use a day from now, if each pool goes on as in the last six hours; never less than none."""
    line = f"predict_linear({recorded(POOL_USED, HERE)}[6h], {AHEAD_SECONDS})"
    return f"clamp_min({one_of('max', line, *HOLDER_LABELS)}, 0)"


def pool_growth() -> str:
    """Bytes a second by which each pool grew over the last hour; below 0 where it shrank."""
    return one_of("max", f"deriv({recorded(POOL_USED, HERE)}[1h])", *HOLDER_LABELS)
