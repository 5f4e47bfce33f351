"""Whether tiers have the right size: what others would serve, how pools fill, what the advice says."""

from __future__ import annotations

from dashboards.boards.empty import NO_ADVICE, NO_EVICTIONS, NO_FILL, NO_POOL
from dashboards.layout import Section, board
from dashboards.panels import (
    BYTES,
    BYTES_PER_SECOND,
    RATIO,
    SECONDS,
    Panel,
    Query,
    Question,
    bars,
    lines,
    listing,
    number,
)
from dashboards.promql import ALL
from dashboards.queries import capacity, pool, tiers
from tierscope.domain.tiers import Tier
from tierscope.registry.advice_metrics import (
    ADVICE_AGE_SECONDS,
    ADVICE_STATUS,
    ADVISED_CAPACITY_BYTES,
    ADVISED_HIT_RATIO,
    GHOST_HIT_RATIO,
)
from tierscope.registry.metrics import CAPACITY_BYTES, STORED_BLOCKS, USED_BYTES
from tierscope.registry.pool_metrics import FULL_IN

ENDPOINT = "{{namespace}}/{{endpoint}}"
NO_CURVE = "No curve: the advice abstains, knows no size of this tier, or no collector is scraped"
NO_RECORDED_POOL = "No pool is read, or Prometheus does not load tierscope-rules.yaml"
TIMES_TODAY = "×{{scale}} today's size"


def capacity_board() -> str:
    """The board as classic dashboard JSON."""
    return board(
        "tierscope-capacity",
        "Tierscope / Capacity",
        "Is each tier worth its size, what would more or less of it serve, and when is the pool full? Curves "
        "come from the collector's latest advice; `tierscope recommend` prints them whole.",
        [
            Section("What the advice says", [_status(), _age()], height=6),
            Section("Hit ratio by size: today's is ×1", [_curve(tier) for tier in Tier]),
            Section("What the next step would bring, over time", [_steps(tier) for tier in Tier]),
            Section("Sizes today and as advised", [_advised(tier) for tier in Tier]),
            Section(
                "What these sizes are expected to serve", [_expected("current"), _expected("recommended")]
            ),
            Section("Today: size and use", [_used(tier) for tier in (Tier.L1, Tier.L2)]),
            Section("How soon content is replaced", [_turnover(tier) for tier in Tier]),
            Section("Growth of the pool", [_forecast(), _growth(), _full_in()]),
        ],
    )


def _status() -> Panel:
    question = Question("Advice", ADVICE_STATUS, NO_ADVICE, "`insufficient_evidence` names what is missing.")
    return listing(question, Query(capacity.advice_status(), ""), unit="none", of="now")


def _age() -> Panel:
    question = Question("Age of the advice", ADVICE_AGE_SECONDS, NO_ADVICE)
    return lines(question, [Query(capacity.advice_age(), ENDPOINT)], unit=SECONDS)


def _curve(tier: Tier) -> Panel:
    question = Question(
        f"{tier.upper()} by size",
        GHOST_HIT_RATIO,
        NO_CURVE,
        "With the tiers above it. Of the endpoint that would gain most: choose one.",
    )
    return bars(question, [Query(capacity.ghost_hit_ratio(tier, ALL), TIMES_TODAY)], unit=RATIO, largest=1)


def _steps(tier: Tier) -> Panel:
    question = Question(f"{tier.upper()} at half, today's and twice its size", GHOST_HIT_RATIO, NO_CURVE)
    scales = [Query(capacity.ghost_hit_ratio(tier, scale), TIMES_TODAY) for scale in ("0.5", "1", "2")]
    return lines(question, scales, unit=RATIO, largest=1)


def _advised(tier: Tier) -> Panel:
    question = Question(
        f"{tier.upper()} of one holder",
        ADVISED_CAPACITY_BYTES,
        NO_CURVE,
        "No recommended size: it may stay as it is.",
    )
    return bars(question, [Query(capacity.advised_bytes(tier), f"{ENDPOINT} {{{{point}}}}")], unit=BYTES)


def _expected(point: str) -> Panel:
    title = {"current": "Today's sizes", "recommended": "The advised sizes"}[point]
    empty = NO_CURVE if point == "current" else "No other size is advised, or no collector is scraped"
    question = Question(title, ADVISED_HIT_RATIO, empty, "Of a tier and those above it.")
    return bars(
        question,
        [Query(capacity.advised_hit_ratio(point), f"{ENDPOINT} {{{{tier}}}}")],
        unit=RATIO,
        largest=1,
    )


def _used(tier: Tier) -> Panel:
    question = Question(
        f"Size and use of {tier.upper()}", CAPACITY_BYTES, NO_FILL, USED_BYTES.help, f"tierscope-tier-{tier}"
    )
    both = [
        Query(tiers.summed(CAPACITY_BYTES, tier), "size"),
        Query(tiers.summed(USED_BYTES, tier), "in use"),
    ]
    return lines(question, both, unit=BYTES)


def _turnover(tier: Tier) -> Panel:
    question = Question(
        f"{tier.upper()} replaced within",
        STORED_BLOCKS,
        NO_EVICTIONS,
        "Blocks held over blocks evicted for room.",
    )
    return lines(question, [Query(tiers.turnover_seconds(tier), "all of it")], unit=SECONDS)


def _forecast() -> Panel:
    question = Question(
        "The pool in a day",
        USED_BYTES,
        NO_RECORDED_POOL,
        "If it goes on as in the last six hours.",
        "tierscope-tier-l2",
    )
    return lines(
        question,
        [
            Query(capacity.pool_capacity(), "{{holder}} size"),
            Query(capacity.pool_used(), "{{holder}} in use"),
            Query(capacity.pool_tomorrow(), "{{holder}} in a day"),
        ],
        unit=BYTES,
    )


def _growth() -> Panel:
    question = Question(
        "Growth", USED_BYTES, NO_RECORDED_POOL, "Over the last hour; below 0 the pool shrinks."
    )
    return lines(question, [Query(capacity.pool_growth(), "{{holder}}")], unit=BYTES_PER_SECOND, signed=True)


def _full_in() -> Panel:
    question = Question("Full in", FULL_IN, f"The pool does not fill. {NO_POOL}")
    return number(question, Query(pool.full_in(), "{{holder}}"), unit=SECONDS)
