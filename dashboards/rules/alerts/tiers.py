"""Alerts about tiers: one that serves less, a pool that fills, a host cache that works in vain."""

from __future__ import annotations

from dashboards.promql import CLUSTER, AnyOf, gauge, rate, sum_by, where_any
from dashboards.rules.recording import (
    ASKED_RATE,
    ENDPOINT,
    FOR_ROOM,
    NEW_ENGINES,
    POOL_CAPACITY,
    POOL_USED,
    ROLLOUT_WINDOW,
    TOKEN_RATE_BY_TIER,
    WINDOW,
    averaged,
    recorded,
)
from dashboards.rules.types import Alert, Severity
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import EVICTED_BLOCKS, FAILED_BLOCKS, RESIDENT_BLOCKS, STORED_BLOCKS

KEPT_RATIO = 0.7
"""A tier that serves less than this share of what it served has lost hits."""
LEAST_SHARE = 0.05
"""Share of all prompt tokens below which a tier's coming and going hurts nobody."""
LEAST_TOKENS_PER_SECOND = 100
FULL_RATIO = 0.95
FILLING_RATIO = 0.6
"""Below this a pool's growth is its filling after a start."""
AHEAD_SECONDS = 4 * 3600
REFUSED_RATIO = 0.05
SHORTEST_STAY_SECONDS = 300

OF_A_HOLDER = (CLUSTER, "tier", "holder", "instance")
CACHES = AnyOf("l0|l1|l2")


def _share(window: str, offset: str = "") -> str:
    """Share of the prompt tokens that were looked up that each tier served, over a window."""
    part = averaged(TOKEN_RATE_BY_TIER, window, offset=offset, tier=CACHES)
    whole = f"({averaged(ASKED_RATE, window, offset=offset)} > {LEAST_TOKENS_PER_SECOND})"
    return f"{part} / ignoring (tier) group_left () {whole}"


def _hits_lost() -> str:
    before = _share("6h", offset="30m")
    lost = f"{_share('30m')} < {KEPT_RATIO} * ({before} > {LEAST_SHARE})"
    return f"{lost} unless on ({', '.join((CLUSTER, *ENDPOINT))}) {recorded(NEW_ENGINES)}"


TIER_HITS_LOST = Alert(
    name="TierscopeTierHitsLost",
    expr=_hits_lost(),
    for_seconds=900,
    severity=Severity.WARNING,
    means="A tier serves less than 70% of the share of prompt tokens it served in the six hours before.",
    summary=(
        "{{ $labels.tier | toUpper }} of {{ $labels.namespace }}/{{ $labels.endpoint }} serves only "
        "{{ $value | humanizePercentage }} of the prompt tokens of {{ $labels.model }}."
    ),
    description=(
        "That is less than 70% of its share in the six hours before, with traffic in both and no engine "
        "younger than "
        f"{ROLLOUT_WINDOW}. What it no longer serves is loaded from below or computed again, and first "
        "tokens come "
        "later."
    ),
    board="tierscope-overview",
    chosen=("namespace", "endpoint"),
)

POOL_FULL = Alert(
    name="TierscopePoolFull",
    expr=f"{recorded(POOL_USED)} / {where_any(recorded(POOL_CAPACITY))} > {FULL_RATIO}",
    for_seconds=600,
    severity=Severity.CRITICAL,
    means="A shared pool is full. It does not evict by itself: what is new is not kept.",
    summary="The pool {{ $labels.holder }} is {{ $value | humanizePercentage }} full.",
    description=(
        "A full Curvine pool refuses new chunks while LMCache believes them stored, so every new prefix is "
        "computed "
        "again on each replica. What the pool holds already can still be read."
    ),
    board="tierscope-tier-l2",
)


def _filling() -> str:
    full = f"{FULL_RATIO} * {recorded(POOL_CAPACITY)}"
    soon = f"predict_linear({recorded(POOL_USED)}[1h], {AHEAD_SECONDS}) > {full}"
    worth_saying = f"{recorded(POOL_USED)} > {FILLING_RATIO} * {recorded(POOL_CAPACITY)}"
    not_yet = f"{recorded(POOL_USED)} <= {full}"
    return f"{soon} and {worth_saying} and {not_yet}"


POOL_FILLING = Alert(
    name="TierscopePoolFilling",
    expr=_filling(),
    for_seconds=1800,
    severity=Severity.WARNING,
    means="At the rate of the last hour a shared pool is full within four hours.",
    summary="The pool {{ $labels.holder }} will be full within 4 hours.",
    description=(
        "At the rate of the last hour it would hold {{ $value | humanize1024 }}B in 4 hours, more than 95% "
        "of its "
        "size. Curvine does not evict by itself; a full pool keeps nothing new."
    ),
    board="tierscope-capacity",
)


def _refused() -> str:
    failed = sum_by(rate(FAILED_BLOCKS, window=WINDOW), *OF_A_HOLDER)
    stored = sum_by(rate(STORED_BLOCKS, window=WINDOW), *OF_A_HOLDER)
    return f"{failed} / {where_any(f'{failed} + ({stored} or 0 * {failed})')}"


STORES_REFUSED = Alert(
    name="TierscopeStoresRefused",
    expr=f"{_refused()} > {REFUSED_RATIO}",
    for_seconds=900,
    severity=Severity.WARNING,
    means="A tier could not take many of the chunks it was given, whatever it answered.",
    summary=(
        "{{ $labels.tier | toUpper }} {{ $labels.holder }} does not keep {{ $value | humanizePercentage }} "
        "of "
        "what it is given."
    ),
    description=(
        "For 15 minutes more than 5% of the chunks stored there were refused for want of room, although the "
        "engine "
        "was told that they were kept. They are computed again when they are asked for."
    ),
    board="tierscope-overview",
)


def _stay_seconds() -> str:
    """How long a host cache keeps a chunk, if it goes on as now: what is there over what goes a second."""
    there = f"max by ({', '.join(OF_A_HOLDER)}) ({gauge(RESIDENT_BLOCKS, tier=Tier.L1)} > 0)"
    going = sum_by(rate(EVICTED_BLOCKS, window=WINDOW, tier=Tier.L1, reason=FOR_ROOM), *OF_A_HOLDER)
    return f"{there} / {where_any(going)}"


HOST_CACHE_THRASH = Alert(
    name="TierscopeHostCacheThrash",
    expr=f"{_stay_seconds()} < {SHORTEST_STAY_SECONDS}",
    for_seconds=900,
    severity=Severity.WARNING,
    means="A host cache replaces its whole content within five minutes; conversations outlive their chunks.",
    summary="L1 {{ $labels.holder }} keeps a chunk for only {{ $value | humanizeDuration }}.",
    description=(
        "For 15 minutes it has evicted so fast that its whole content is replaced within 5 minutes. People "
        "who think "
        "longer than that before their next turn find nothing in it: L1 costs memory and copies, and hardly "
        "serves."
    ),
    board="tierscope-tier-l1",
)

TIER_ALERTS = (TIER_HITS_LOST, POOL_FULL, POOL_FILLING, STORES_REFUSED, HOST_CACHE_THRASH)
