"""What more or less of a tier would serve, how fast pools fill, what the advice says."""

from __future__ import annotations

from dashboards.promql import Matcher, gauge
from dashboards.rules.recording import POOL_CAPACITY, POOL_USED, recorded
from dashboards.variables import HERE, OWNER
from tierscope.domain.tiers import Tier
from tierscope.registry.advice_metrics import (
    ADVICE_AGE_SECONDS,
    ADVICE_STATUS,
    ADVISED_CAPACITY_BYTES,
    ADVISED_HIT_RATIO,
    GHOST_HIT_RATIO,
)

AHEAD_SECONDS = 24 * 3600
ENDPOINTS = ("namespace", "endpoint")


def ghost_hit_ratio(tier: Tier, scale: Matcher) -> str:
    """Hit ratio that a tier would have at so many times its size, of the endpoint that would gain most."""
    return f"max by (scale) ({gauge(GHOST_HIT_RATIO, OWNER, tier=tier, scale=scale)})"


def ghost_by_endpoint(tier: Tier, scale: str) -> str:
    """The same by endpoint, for one size."""
    return f"max by (namespace, endpoint) ({gauge(GHOST_HIT_RATIO, OWNER, tier=tier, scale=scale)})"


def advised_bytes(tier: Tier) -> str:
    """Size of one holder of a tier today, and the one advised, by endpoint."""
    return f"max by (namespace, endpoint, point) ({gauge(ADVISED_CAPACITY_BYTES, OWNER, tier=tier)})"


def advised_hit_ratio(point: str) -> str:
    """Hit ratio expected of each tier and those above it, today or as advised, by endpoint."""
    return f"max by (namespace, endpoint, tier) ({gauge(ADVISED_HIT_RATIO, OWNER, point=point)})"


def advice_status() -> str:
    """What the latest advice on each endpoint says in one word."""
    return f"max by (namespace, endpoint, status) ({gauge(ADVICE_STATUS, OWNER)}) == 1"


def advice_age() -> str:
    """Seconds since the advice on each endpoint was computed."""
    return f"max by (namespace, endpoint) ({gauge(ADVICE_AGE_SECONDS, OWNER)})"


def pool_used() -> str:
    """Bytes in use of each pool."""
    return f"max by (holder) ({recorded(POOL_USED, HERE)})"


def pool_capacity() -> str:
    """Size of each pool."""
    return f"max by (holder) ({recorded(POOL_CAPACITY, HERE)})"


def pool_tomorrow() -> str:
    """Bytes in use a day from now, if each pool goes on as in the last six hours; never less than none."""
    line = f"predict_linear({recorded(POOL_USED, HERE)}[6h], {AHEAD_SECONDS})"
    return f"clamp_min(max by (holder) ({line}), 0)"


def pool_growth() -> str:
    """Bytes a second by which each pool grew over the last hour; below 0 where it shrank."""
    return f"max by (holder) (deriv({recorded(POOL_USED, HERE)}[1h]))"
