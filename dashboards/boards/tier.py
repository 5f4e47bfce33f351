"""One tier in depth: what it serves, holds, loses and costs. One function makes the boards of all three."""

from __future__ import annotations

from collections.abc import Callable

from dashboards.annotations import regression_annotation
from dashboards.boards import pool
from dashboards.boards.empty import (
    NO_CACHE_SERVER,
    NO_EVENTS,
    NO_EVICTIONS,
    NO_FILL,
    NO_LOADS,
    NO_REQUESTS,
    NO_SOURCES,
    SOURCES_SAY,
)
from dashboards.layout import Section, board
from dashboards.panels import (
    BLOCKS,
    BLOCKS_PER_SECOND,
    BYTES,
    BYTES_PER_SECOND,
    RATIO,
    REQUESTS_PER_SECOND,
    SECONDS,
    TOKENS_PER_SECOND,
    Panel,
    Query,
    Question,
    lines,
    number,
)
from dashboards.queries import latency, sources, tiers, tokens
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import (
    DUPLICATE_BLOCKS,
    EVICTED_AGE,
    ORPHAN_BLOCKS,
    PINNED_BLOCKS,
    REUSE_GAP,
)
from tierscope.registry.metrics import (
    CAPACITY_BLOCKS,
    CAPACITY_BYTES,
    COMPLETENESS,
    EVICTED_BLOCKS,
    FAILED_BLOCKS,
    LOAD_SECONDS,
    LOOKUP_TOKENS,
    REQUEST_TOKENS,
    RESIDENT_BLOCKS,
    STORED_BLOCKS,
    TIME_TO_FIRST_TOKEN,
    USED_BYTES,
)
from tierscope.registry.transfer_metrics import (
    FAILED_TRANSFERS,
    STORE_SECONDS,
    TIER_LOAD_SECONDS,
    TRANSFERRED_BYTES,
)
from tierscope.registry.types import Metric

NAMES = {Tier.L0: "L0 GPU memory", Tier.L1: "L1 host memory", Tier.L2: "L2 shared pool"}
WHOSE = {
    Tier.L0: "Of the engines chosen.",
    Tier.L1: "Of every cache server: this tier is shared by endpoints.",
    Tier.L2: "Of every pool: this tier is shared by endpoints.",
}
SHARES = (0.5, 0.9, 0.99)
NAMED = 10
"""Holders named on a panel, whatever their number."""


def tier_board(tier: Tier) -> Callable[[], str]:
    """What renders the board of one tier as classic dashboard JSON."""
    return lambda: _board(tier)


def _board(tier: Tier) -> str:
    below = [] if tier is Tier.L0 else [Section("What loads and stores take", _speed(tier))]
    moved = [] if tier is Tier.L0 else [Section("What cache servers move", _moves(tier))]
    return board(
        f"tierscope-tier-{tier}",
        f"Tierscope / {NAMES[tier]}",
        f"Does {tier.upper()} serve what it could, is it large enough, and what does it cost to load from? "
        f"{SOURCES_SAY[tier]}",
        [
            Section("What it serves", _served_now(tier), height=5),
            Section("Hits and lookups", _served(tier)),
            Section("What it holds", _held(tier)),
            Section("What leaves it", _leaving(tier)),
            *below,
            *moved,
            *(pool.sections() if tier is Tier.L2 else []),
            Section("What these numbers rest on", [_complete(tier), _ttft(tier)], height=7),
        ],
        annotation=regression_annotation(),
    )


def _served_now(tier: Tier) -> list[Panel]:
    left_over = "Of the tokens that the tiers above did not serve." if tier is not Tier.L0 else ""
    looked_up = (
        f"{WHOSE[tier]} What the tiers above hold too counts as found: it is what this tier could serve."
    )
    return [
        number(
            Question("Hit ratio", REQUEST_TOKENS, NO_REQUESTS, left_over),
            Query(tokens.tier_hit_ratio(tier), "hit ratio"),
            unit=RATIO,
        ),
        number(
            Question("Share of the prompt tokens looked up", REQUEST_TOKENS, NO_REQUESTS),
            Query(tokens.served_ratio(tier), "share"),
            unit=RATIO,
        ),
        number(
            Question("Lookup hit ratio", LOOKUP_TOKENS, _no_lookups(tier), looked_up),
            Query(tiers.lookup_hit_ratio(tier), "found"),
            unit=RATIO,
        ),
        number(
            Question("Fullest", USED_BYTES, NO_FILL, WHOSE[tier]),
            Query(tiers.highest_fill_ratio(tier), "fullest"),
            unit=RATIO,
        ),
    ]


def _no_lookups(tier: Tier) -> str:
    return f"Nobody looked anything up in {tier.upper()} in this time, or no source counts it: see below"


def _served(tier: Tier) -> list[Panel]:
    every = Question(
        "Tokens served",
        REQUEST_TOKENS,
        NO_REQUESTS,
        "Beside all other origins: the layers add up to all tokens.",
    )
    looked_up = Question("Lookups by result", LOOKUP_TOKENS, _no_lookups(tier), WHOSE[tier])
    gap = Question(
        "Wanted again after",
        REUSE_GAP,
        NO_REQUESTS,
        "Of blocks that this tier served again on one engine. What is wanted again later than this tier "
        "keeps it is found below it or computed.",
    )
    return [
        lines(
            every,
            [Query(tokens.tokens_by_origin(origin), "{{tier}}") for origin in tokens.ORIGINS],
            unit=TOKENS_PER_SECOND,
            stacked=True,
        ),
        lines(looked_up, [Query(tiers.lookups(tier), "{{result}}")], unit=TOKENS_PER_SECOND, stacked=True),
        lines(gap, _quantiles(lambda share: tiers.wanted_again(tier, share)), unit=SECONDS),
    ]


def _held(tier: Tier) -> list[Panel]:
    fill = Question(
        "Fill",
        RESIDENT_BLOCKS if tier is Tier.L0 else USED_BYTES,
        NO_FILL,
        f"{WHOSE[tier]} Never a sum of ratios.",
    )
    names = " ".join(f"{{{{{label}}}}}" for label in tiers.NAMED_BY[tier])
    named = Question(f"The {NAMED} fullest", USED_BYTES, NO_FILL, WHOSE[tier])
    return [
        lines(
            fill,
            [Query(tiers.mean_fill_ratio(tier), "mean"), Query(tiers.highest_fill_ratio(tier), "fullest")],
            unit=RATIO,
            largest=1,
        ),
        lines(named, [Query(tiers.fullest(tier, NAMED), names)], unit=RATIO, largest=1),
        _blocks(tier) if tier is Tier.L0 else _bytes(tier),
    ]


def _bytes(tier: Tier) -> Panel:
    question = Question("Size and use", CAPACITY_BYTES, NO_FILL, WHOSE[tier])
    both: list[tuple[Metric, str]] = [(CAPACITY_BYTES, "size"), (USED_BYTES, "in use")]
    return lines(question, [Query(tiers.summed(one, tier), name) for one, name in both], unit=BYTES)


def _blocks(tier: Tier) -> Panel:
    question = Question(
        "Blocks",
        CAPACITY_BLOCKS,
        NO_EVENTS,
        f"{WHOSE[tier]} Pinned are in use by running requests; orphans lost a block before them and cannot "
        "be hit.",
    )
    parts: list[tuple[Metric, str]] = [
        (CAPACITY_BLOCKS, "size"),
        (RESIDENT_BLOCKS, "resident"),
        (PINNED_BLOCKS, "pinned"),
        (DUPLICATE_BLOCKS, "duplicates"),
        (ORPHAN_BLOCKS, "orphans"),
    ]
    return lines(question, [Query(tiers.summed(one, tier), name) for one, name in parts], unit=BLOCKS)


def _leaving(tier: Tier) -> list[Panel]:
    reasons = Question("Evictions by reason", EVICTED_BLOCKS, NO_EVICTIONS, WHOSE[tier])
    ages = Question("Age at eviction", EVICTED_AGE, NO_EVENTS, f"For want of room alone. {WHOSE[tier]}")
    stores = Question(
        "Stored and refused",
        STORED_BLOCKS,
        "Nothing was stored in this tier in this time, or no source tells it",
        f"{FAILED_BLOCKS.help} {WHOSE[tier]}",
    )
    turnover = Question(
        "Content replaced within",
        STORED_BLOCKS,
        NO_EVICTIONS,
        f"If it goes on as now: blocks held over blocks evicted for room. {WHOSE[tier]}",
    )
    return [
        lines(
            reasons,
            [Query(tiers.evictions_by_reason(tier), "{{reason}}")],
            unit=BLOCKS_PER_SECOND,
            stacked=True,
        ),
        lines(ages, _quantiles(lambda share: tiers.evicted_age(tier, share), (0.1, 0.5, 0.9)), unit=SECONDS),
        lines(turnover, [Query(tiers.turnover_seconds(tier), "all of it")], unit=SECONDS),
        lines(
            stores,
            [Query(tiers.stored_blocks(tier), "stored"), Query(tiers.failed_blocks(tier), "refused")],
            unit=BLOCKS_PER_SECOND,
        ),
    ]


def _speed(tier: Tier) -> list[Panel]:
    waits = Question("What requests wait for loads", LOAD_SECONDS, NO_LOADS)
    loads = Question("Requests that loaded", LOAD_SECONDS, NO_LOADS, "What the waits stand for.")
    tasks = Question(
        "Load and store tasks, p90", TIER_LOAD_SECONDS, NO_CACHE_SERVER, f"{STORE_SECONDS.help} {WHOSE[tier]}"
    )
    return [
        lines(waits, _quantiles(lambda share: tiers.load_wait(tier, share)), unit=SECONDS),
        lines(loads, [Query(tiers.loads_per_second(tier), "loads")], unit=REQUESTS_PER_SECOND),
        lines(
            tasks,
            [Query(tiers.load_task(tier, 0.9), "load"), Query(tiers.store_task(tier, 0.9), "store")],
            unit=SECONDS,
        ),
    ]


def _moves(tier: Tier) -> list[Panel]:
    moved = Question("Bytes in and out", TRANSFERRED_BYTES, NO_CACHE_SERVER, WHOSE[tier])
    failed = Question(
        "Not stored or not loaded, by reason",
        FAILED_TRANSFERS,
        "Nothing failed in this time, or no probe tells it",
    )
    return [
        lines(moved, [Query(tiers.moved_bytes(tier), "{{action}}")], unit=BYTES_PER_SECOND),
        lines(failed, [Query(tiers.failed_transfers(tier), "{{action}} {{reason}}")], unit=BLOCKS_PER_SECOND),
    ]


def _complete(tier: Tier) -> Panel:
    question = Question("Completeness", COMPLETENESS, NO_SOURCES, SOURCES_SAY[tier], "tierscope-pipeline")
    return lines(
        question,
        [Query(sources.completeness_by_kind(tiers.SOURCES[tier]), "{{kind}}")],
        unit=RATIO,
        largest=1,
    )


def _ttft(tier: Tier) -> Panel:
    question = Question("TTFT where this tier served", TIME_TO_FIRST_TOKEN, NO_REQUESTS, "", "tierscope-ttft")
    return lines(question, _quantiles(lambda share: latency.ttft_quantile(share, tier)), unit=SECONDS)


def _quantiles(expression: Callable[[float], str], shares: tuple[float, ...] = SHARES) -> list[Query]:
    return [Query(expression(share), f"p{share * 100:.0f}") for share in shares]
