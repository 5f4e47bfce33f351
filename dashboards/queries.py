"""The questions boards ask, as PromQL, by name.

Two rules hold everywhere. A ratio is a ratio of sums, never a sum or an average of ratios over
engines. Where nothing happened there is nothing: a divisor of 0 makes a series absent, not NaN or 0.

A shared L2 pool is read by every exporter whose node mounts it, so its gauges arrive once an exporter
and are taken once (`max by (holder)`); counters are of what one exporter's own sources did and add up.
"""

from __future__ import annotations

from dashboards.promql import (
    AnyOf,
    Matcher,
    NoneOf,
    bucket_rate,
    count_rate,
    gauge,
    rate,
    sum_by,
    where_any,
)
from dashboards.rules.recording import TOKEN_RATE, TOKEN_RATE_BY_TIER, recorded
from dashboards.variables import ENGINE, L0_HOLDER
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import (
    CAPACITY_BLOCKS,
    CAPACITY_BYTES,
    COMPLETENESS,
    ENGINE_TOKENS,
    EVICTED_BLOCKS,
    REQUEST_TOKENS,
    RESIDENT_BLOCKS,
    SOURCE_MESSAGES,
    SOURCE_UP,
    TIME_TO_FIRST_TOKEN,
    USED_BYTES,
)

TIERS = AnyOf("l0|l1|l2")
EXTERNAL = "external"
ELSE = NoneOf("l0|l1|l2|external")
"""Computed, and whatever a later release may add: an unknown origin is shown, not hidden."""

ORIGINS: tuple[Matcher, ...] = (TIERS, EXTERNAL, ELSE)
"""Every origin once, in the order a prompt travels; one query each keeps legends in that order."""


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
    chosen = {label: ENGINE[label] for label in ("namespace", "endpoint")}
    computed = sum_by(recorded(TOKEN_RATE_BY_TIER, chosen, tier="computed"), *chosen)
    return f"1 - {computed} / {where_any(sum_by(recorded(TOKEN_RATE, chosen), *chosen))}"


def served_ratio_by_tier() -> str:
    """Share of all prompt tokens that each tier served."""
    return f"{tokens_by_origin(TIERS)} / ignoring (tier) group_left () {where_any(all_tokens())}"


def tier_hit_ratio(tier: Tier) -> str:
    """Of the prompt tokens that the tiers above left over, the share this tier served."""
    above = "|".join(other for other in Tier if other < tier)
    left_over = rate(REQUEST_TOKENS, ENGINE, tier=NoneOf(above)) if above else rate(REQUEST_TOKENS, ENGINE)
    return f"{sum_by(rate(REQUEST_TOKENS, ENGINE, tier=tier))} / {where_any(sum_by(left_over))}"


def ttft_quantile(quantile: float, served_from: Matcher) -> str:
    """TTFT in seconds that this share of requests did not exceed; absent where there was no request."""
    buckets = sum_by(bucket_rate(TIME_TO_FIRST_TOKEN, ENGINE, served_from=served_from), "le", "served_from")
    return f"histogram_quantile({quantile:g}, {buckets}) >= 0"


def requests_ratio(served_from: Matcher) -> str:
    """Share of requests by the outermost tier that served any of their prompt."""
    some = sum_by(count_rate(TIME_TO_FIRST_TOKEN, ENGINE, served_from=served_from), "served_from")
    every = sum_by(count_rate(TIME_TO_FIRST_TOKEN, ENGINE))
    return f"{some} / ignoring (served_from) group_left () {where_any(every)}"


def evictions_by_reason(tier: Tier) -> str:
    """Blocks a second that left a tier; L0 of the engines chosen, L1 and L2 of every holder."""
    chosen = {"holder": L0_HOLDER} if tier is Tier.L0 else {}
    return sum_by(rate(EVICTED_BLOCKS, chosen, tier=tier), "reason")


def fill_ratio(tier: Tier) -> str:
    """Share of a tier that is in use, one series a holder: GPU blocks in L0, bytes below it."""
    if tier is Tier.L0:
        resident = gauge(RESIDENT_BLOCKS, tier=tier, holder=L0_HOLDER)
        return f"{resident} / {gauge(CAPACITY_BLOCKS, tier=tier, holder=L0_HOLDER)}"
    used, capacity = gauge(USED_BYTES, tier=tier), gauge(CAPACITY_BYTES, tier=tier)
    if tier is Tier.L2:
        used, capacity = f"max by (holder) ({used})", f"max by (holder) ({capacity})"
    return f"{used} / {capacity}"


def mean_fill_ratio(tier: Tier) -> str:
    """How full a tier's holders are on average."""
    return f"avg({fill_ratio(tier)})"


def highest_fill_ratio(tier: Tier) -> str:
    """How full the fullest holder of a tier is."""
    return f"max({fill_ratio(tier)})"


def source_up() -> str:
    """1 where every exporter that reads a source reads it well, 0 where one does not."""
    return f"min by (source) ({gauge(SOURCE_UP)})"


def completeness() -> str:
    """The least share of a source's stream that anyone received."""
    return f"min by (source) ({gauge(COMPLETENESS)})"


def agreement_ratio() -> str:
    """Prompt tokens in our records over prompt tokens in the engines' own counters; 1 is agreement."""
    return f"{all_tokens()} / {where_any(sum_by(rate(ENGINE_TOKENS, ENGINE)))}"


def lost_messages() -> str:
    """Units of streams a second that were lost or could not be read, where there are any."""
    lost = rate(SOURCE_MESSAGES, result=AnyOf("missing|undecodable"))
    return f"{sum_by(lost, 'source', 'result')} > 0"
