"""Where prompt tokens came from."""

from __future__ import annotations

from dashboards.promql import AnyOf, Matcher, NoneOf, rate, ratio, sum_by, where_any, without
from dashboards.rules.recording import ASKED_RATE, TOKEN_RATE_BY_TIER, recorded
from dashboards.variables import ENDPOINT, ENGINE, OWNER_LABELS
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import UNASKED_TOKENS
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


def asked_tokens(*labels: str, origin: Matcher | None = None) -> str:
    """Prompt tokens a second (of some origins, computed among them) that were looked up in a cache."""
    every = rate(REQUEST_TOKENS, ENGINE) if origin is None else rate(REQUEST_TOKENS, ENGINE, tier=origin)
    return without(sum_by(every, *labels), sum_by(rate(UNASKED_TOKENS, ENGINE), *labels))


def cached_ratio() -> str:
    """Share of the prompt tokens that were looked up and did not have to be computed."""
    return ratio(tokens_of_caches(), asked_tokens())


def tokens_of_caches(*labels: str) -> str:
    """Prompt tokens a second that were not computed."""
    return sum_by(rate(REQUEST_TOKENS, ENGINE, tier=CACHED), *labels)


def cached_ratio_by_endpoint() -> str:
    """The same by endpoint, over five minutes, from recorded series: cheap at any number of replicas."""
    cached = sum_by(recorded(TOKEN_RATE_BY_TIER, ENDPOINT, tier=CACHED), *OWNER_LABELS)
    return ratio(cached, sum_by(recorded(ASKED_RATE, ENDPOINT), *OWNER_LABELS))


def served_ratio_by_tier() -> str:
    """Share of the prompt tokens that were looked up that each tier served."""
    return f"{tokens_by_origin(TIERS)} / ignoring (tier) group_left () {where_any(asked_tokens())}"


def served_ratio(tier: Tier) -> str:
    """Share of the prompt tokens that were looked up that one tier served."""
    return ratio(sum_by(rate(REQUEST_TOKENS, ENGINE, tier=tier)), asked_tokens())


def tier_hit_ratio(tier: Tier) -> str:
    """Of the tokens that were looked up and that the tiers above left over, the share this one served."""
    above = "|".join(other for other in Tier if other < tier)
    left_over = asked_tokens(origin=NoneOf(above) if above else None)
    return ratio(sum_by(rate(REQUEST_TOKENS, ENGINE, tier=tier)), left_over)


def agreement_ratio() -> str:
    """Prompt tokens in our records over prompt tokens in the engines' own counters; 1 is agreement."""
    return ratio(all_tokens(), sum_by(rate(ENGINE_TOKENS, ENGINE)))


def requests_by_status() -> str:
    """Admissions a second by what became of them."""
    return sum_by(rate(REQUESTS, ENGINE), "status")
