"""The overview asks whether the cache earns its keep, and whether these numbers can be trusted."""

from __future__ import annotations

from dashboards.annotations import regression_annotation
from dashboards.boards.empty import (
    FIVE_MINUTES,
    NO_EVICTIONS,
    NO_FILL,
    NO_RECORDINGS,
    NO_REQUESTS,
    NO_SOURCES,
    NO_TENANTS,
)
from dashboards.boards.misses import (
    computed_by_cause,
    cost_by_cause,
    cost_now,
    endpoint_cost,
    seconds_by_cause,
)
from dashboards.layout import Section, board
from dashboards.panels import (
    BLOCKS_PER_SECOND,
    MESSAGES_PER_SECOND,
    RATIO,
    SECONDS,
    TOKENS_PER_SECOND,
    Panel,
    Query,
    Question,
    lines,
    number,
    states,
)
from dashboards.queries import latency, sources, tenants, tiers, tokens
from dashboards.variables import board_variables, tenant_variable
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import (
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
from tierscope.registry.tenant_metrics import TENANT_TOKENS

TENANTS_NAMED = 10
FILL_NOTES = {
    Tier.L0: "A full L0 is normal: blocks stay until their room is needed. Read it with the evictions below.",
    Tier.L1: "Bytes that hold blocks over bytes configured.",
    Tier.L2: "The whole shared pool, whoever uses it.",
}
FILL_ASKS = {Tier.L0: RESIDENT_BLOCKS, Tier.L1: USED_BYTES, Tier.L2: USED_BYTES}


def overview() -> str:
    """The board as classic dashboard JSON."""
    return board(
        "tierscope-overview",
        "Tierscope / Overview",
        "Is the KV cache earning its keep? Which tier served each prompt token, what was computed again, "
        "what that did to TTFT and what it costs, and how much of the truth these numbers rest on.",
        [
            Section("Is the cache earning its keep?", [cached_now(), *tier_hits_now()], height=5),
            Section("What it costs (where there are prices)", [cost_now(), cost_by_cause(), endpoint_cost()]),
            Section("Tokens", [token_flow(), served_by_tier(), cached_by_endpoint()]),
            Section("What is computed, why, and what that takes", [computed_by_cause(), seconds_by_cause()]),
            Section("Time to first token", [ttft(0.5), ttft(0.9), requests_by_tier()]),
            Section("How full each tier is", [fill(tier) for tier in Tier]),
            Section("What leaves each tier", [evictions(tier) for tier in Tier]),
            Section("Sources: what these numbers rest on", [sources_up(), complete()], height=7),
            Section("Do the sources agree?", [agreement(), lost()]),
            Section(
                "Tenants (where exporters are told to tell them)",
                [tenant_tokens(), tenant_shares()],
                closed=True,
            ),
        ],
        variables=(*board_variables(), tenant_variable()),
        annotation=regression_annotation(),
    )


def cached_now() -> Panel:
    """The one number: how much of the prompts was not computed."""
    question = Question("Prompt tokens served by a cache", REQUEST_TOKENS, NO_REQUESTS)
    return number(question, Query(tokens.cached_ratio(), "cached"), unit=RATIO)


def tier_hits_now() -> list[Panel]:
    """What each tier makes of the tokens that reach it."""
    note = "Of the tokens that the tiers above did not serve. Tokens of an unknown tier count as not served."
    return [
        number(
            Question(
                f"{tier.upper()} hit ratio", REQUEST_TOKENS, NO_REQUESTS, note, f"tierscope-tier-{tier}"
            ),
            Query(tokens.tier_hit_ratio(tier), tier.upper()),
            unit=RATIO,
        )
        for tier in Tier
    ]


def token_flow() -> Panel:
    """Tokens by origin, adding up to the prompts."""
    flows = [Query(tokens.tokens_by_origin(origin), "{{tier}}") for origin in tokens.ORIGINS]
    question = Question(
        "Token flow by tier", REQUEST_TOKENS, NO_REQUESTS, "The layers add up to all prompt tokens."
    )
    return lines(question, flows, unit=TOKENS_PER_SECOND, stacked=True)


def served_by_tier() -> Panel:
    """The contribution of each tier to what was looked up."""
    question = Question(
        "Hit ratio by tier",
        REQUEST_TOKENS,
        NO_REQUESTS,
        "Share of the prompt tokens looked up that the tier served.",
    )
    return lines(question, [Query(tokens.served_ratio_by_tier(), "{{tier}}")], unit=RATIO, largest=1)


def cached_by_endpoint() -> Panel:
    """Endpoints side by side, from recorded series: cheap however many replicas there are."""
    question = Question(
        "Cached share by endpoint",
        REQUEST_TOKENS,
        NO_RECORDINGS,
        FIVE_MINUTES,
        "tierscope-routing",
    )
    return lines(
        question,
        [Query(tokens.cached_ratio_by_endpoint(), "{{namespace}}/{{endpoint}}")],
        unit=RATIO,
        largest=1,
    )


def tenant_tokens() -> Panel:
    """The busiest tenants."""
    question = Question(
        f"Tokens of the {TENANTS_NAMED} busiest tenants",
        TENANT_TOKENS,
        NO_TENANTS,
        "A tenant is the keyed hash of its cache salt; other: those without series of their own; none: "
        "requests without a salt.",
    )
    return lines(
        question, [Query(tenants.tokens_of_tenants(TENANTS_NAMED), "{{tenant}}")], unit=TOKENS_PER_SECOND
    )


def tenant_shares() -> Panel:
    """Who is served least."""
    question = Question(
        f"Cached share of the {TENANTS_NAMED} tenants that are served least", TENANT_TOKENS, NO_TENANTS
    )
    return lines(
        question,
        [Query(tenants.cached_share_of_tenants(TENANTS_NAMED), "{{tenant}}")],
        unit=RATIO,
        largest=1,
    )


def ttft(quantile: float) -> Panel:
    """One quantile of TTFT for each tier that served."""
    question = Question(
        f"TTFT p{quantile * 100:.0f} by who served",
        TIME_TO_FIRST_TOKEN,
        NO_RECORDINGS,
        FIVE_MINUTES,
        "tierscope-ttft",
    )
    queries_by_origin = [
        Query(latency.ttft_quantile(quantile, origin), "{{served_from}}") for origin in tokens.ORIGINS
    ]
    return lines(question, queries_by_origin, unit=SECONDS)


def requests_by_tier() -> Panel:
    """How many requests each of those quantiles stands for."""
    question = Question(
        "Requests by who served",
        TIME_TO_FIRST_TOKEN,
        NO_RECORDINGS,
        "What the quantiles stand for; a request counts for the outermost tier that served any of it.",
    )
    shares = [Query(latency.requests_ratio(origin), "{{served_from}}") for origin in tokens.ORIGINS]
    return lines(question, shares, unit=RATIO, stacked=True, largest=1)


def fill(tier: Tier) -> Panel:
    """Mean and fullest holder of one tier; never a sum of ratios."""
    question = Question(
        f"{tier.upper()} fill", FILL_ASKS[tier], NO_FILL, FILL_NOTES[tier], "tierscope-capacity"
    )
    both = [
        Query(tiers.mean_fill_ratio(tier), "mean"),
        Query(tiers.highest_fill_ratio(tier), "fullest"),
    ]
    return lines(question, both, unit=RATIO, largest=1)


def evictions(tier: Tier) -> Panel:
    """Blocks that left one tier, by reason."""
    note = (
        "Of the engines chosen." if tier is Tier.L0 else "Of every holder: this tier is shared by endpoints."
    )
    question = Question(
        f"{tier.upper()} evictions by reason", EVICTED_BLOCKS, NO_EVICTIONS, note, f"tierscope-tier-{tier}"
    )
    return lines(question, [Query(tiers.evictions_by_reason(tier), "{{reason}}")], unit=BLOCKS_PER_SECOND)


def sources_up() -> Panel:
    """What can be read, source by source."""
    question = Question(
        "Source up",
        SOURCE_UP,
        NO_SOURCES,
        "Down if one source of a kind cannot be read by one exporter; the board behind the link names it.",
        "tierscope-pipeline",
    )
    return states(question, Query(sources.kinds_up(), "{{kind}}"))


def complete() -> Panel:
    """How much of each stream arrived."""
    question = Question(
        "Completeness", COMPLETENESS, NO_SOURCES, "Of the source of a kind that is least complete."
    )
    return lines(question, [Query(sources.completeness_by_kind(), "{{kind}}")], unit=RATIO, largest=1)


def agreement() -> Panel:
    """Our records against the engines' own counters."""
    question = Question(
        "Tokens in records over tokens in the engines' counters",
        ENGINE_TOKENS,
        "No engine counted a prompt token in this time, or no engine's page is read: see Source up",
        "1 is agreement; rates of both are taken over the same time.",
    )
    return lines(question, [Query(tokens.agreement_ratio(), "agreement")], unit=RATIO)


def lost() -> Panel:
    """What did not arrive or could not be read."""
    question = Question("Lost or unreadable", SOURCE_MESSAGES, "Nothing was lost in this time")
    return lines(question, [Query(sources.lost_by_kind(), "{{kind}} {{result}}")], unit=MESSAGES_PER_SECOND)
