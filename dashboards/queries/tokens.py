"""Where prompt tokens came from."""

from __future__ import annotations

from dashboards.promql import AnyOf, Matcher, NoneOf, rate, ratio, sum_by, where_any
from dashboards.rules.recording import TOKEN_RATE, TOKEN_RATE_BY_TIER, recorded
from dashboards.variables import ENDPOINT, ENGINE
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import ENGINE_TOKENS, REQUEST_TOKENS, REQUESTS

TIERS = AnyOf("l0|l1|l2")
EXTERNAL = "external"
ELSE = NoneOf("l0|l1|l2|external")
"""Computed, and whatever a later release may add: an unknown origin is shown, not hidden."""

ORIGINS: tuple[Matcher, ...] = (TIERS, EXTERNAL, ELSE)
"""Every origin once, in the order a prompt travels; one query each keeps legends in that order."""

CACHED = AnyOf("l0|l1|l2|external")


def tokens_by_origin(origin: Matcher) -> str:
    """Prompt tokens a second, by where their KV values came from."""
    return sum_by(rate(REQUEST_TOKENS, ENGINE, tier=origin), "tier")


def all_tokens() -> str:
    """Prompt tokens a second, of every origin."""
    return sum_by(rate(REQUEST_TOKENS, ENGINE))


def cached_ratio() -> str:
    """Share of prompt tokens that were not computed."""
    computed = sum_by(rate(REQUEST_TOKENS, ENGINE, tier="computed"))
    return f"1 - {computed} / {where_any(all_tokens())}"


def cached_ratio_by_endpoint() -> str:
    """The same by endpoint, over five minutes, from recorded series: cheap at any number of replicas."""
    named = ("namespace", "endpoint")
    computed = sum_by(recorded(TOKEN_RATE_BY_TIER, ENDPOINT, tier="computed"), *named)
    return f"1 - {computed} / {where_any(sum_by(recorded(TOKEN_RATE, ENDPOINT), *named))}"


def served_ratio_by_tier() -> str:
    """Share of all prompt tokens that each tier served."""
    return f"{tokens_by_origin(TIERS)} / ignoring (tier) group_left () {where_any(all_tokens())}"


def served_ratio(tier: Tier) -> str:
    """Share of all prompt tokens that one tier served."""
    return ratio(sum_by(rate(REQUEST_TOKENS, ENGINE, tier=tier)), all_tokens())


def tier_hit_ratio(tier: Tier) -> str:
    """Of the prompt tokens that the tiers above left over, the share this tier served."""
    above = "|".join(other for other in Tier if other < tier)
    left_over = rate(REQUEST_TOKENS, ENGINE, tier=NoneOf(above)) if above else rate(REQUEST_TOKENS, ENGINE)
    return ratio(sum_by(rate(REQUEST_TOKENS, ENGINE, tier=tier)), sum_by(left_over))


def agreement_ratio() -> str:
    """Prompt tokens in our records over prompt tokens in the engines' own counters; 1 is agreement."""
    return ratio(all_tokens(), sum_by(rate(ENGINE_TOKENS, ENGINE)))


def requests_by_status() -> str:
    """Admissions a second by what became of them."""
    return sum_by(rate(REQUESTS, ENGINE), "status")
