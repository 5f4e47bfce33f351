"""Metrics of the advice: whether it is fresh, what it says, and the curves it rests on."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric

ADVICE_AGE_SECONDS = Metric(
    name="tierscope_advice_age_seconds",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint"),
    help="Time since the endpoint's advice was last computed.",
    answers="Is the advice an operator reads fresh?",
)
ADVICE_STATUS = Metric(
    name="tierscope_advice_status",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint", "status"),
    help="1 for the status of the endpoint's latest advice: recommend, no_change, insufficient_evidence.",
    answers="Is there something to change?",
    allow=("no_unit",),
)
GHOST_HIT_RATIO = Metric(
    name="tierscope_ghost_hit_ratio",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint", "tier", "scale"),
    help="Hit ratio of a tier and those above it, had it so many times its present size (scale), by the "
    "latest advice's curve; absent below the sizes that the curve covers.",
    answers="What would more or less of a tier have served?",
)
ADVISED_CAPACITY_BYTES = Metric(
    name="tierscope_advised_capacity_bytes",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint", "tier", "point"),
    help="Size of one holder of a tier by the latest advice, by point: current, and recommended where it "
    "advises another.",
    answers="Which size does the advice say, and from which does it start?",
)
ADVISED_HIT_RATIO = Metric(
    name="tierscope_advised_hit_ratio",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint", "tier", "point"),
    help="Hit ratio of a tier and those above it that the latest advice expects at each of these sizes.",
    answers="What is the advised size expected to serve, and today's?",
)
ADVISED_COST = Metric(
    name="tierscope_advised_cost_per_hour",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint", "point", "currency"),
    help="What the endpoint costs an hour by the latest advice, in the currency its prices are in, by point: "
    "current, and recommended once all changes of sizes that it advises are made. Absent without prices.",
    answers="What does the endpoint cost, and what would it at the advised sizes?",
    allow=("no_unit",),
)
ROUTED_HIT_RATIO = Metric(
    name="tierscope_routed_hit_ratio",
    kind=Kind.GAUGE,
    labels=("namespace", "endpoint", "point"),
    help="Share of the prompt tokens in L0 and L1 of a replica, over the newest requests of the latest "
    "advice's window, by point: best, what the replica that had most had (LRUs of today's sizes over what "
    "each was asked); predicted, what the router took the chosen one to have (its index as modelled; absent "
    "for policies that foretell nothing); delivered, what the chosen one served (recorded). Absent with one "
    "replica.",
    answers="What could routing have found, what did it count on, and what was there?",
)

ADVICE: tuple[Metric, ...] = (
    ADVICE_AGE_SECONDS,
    ADVICE_STATUS,
    GHOST_HIT_RATIO,
    ADVISED_CAPACITY_BYTES,
    ADVISED_HIT_RATIO,
    ADVISED_COST,
    ROUTED_HIT_RATIO,
)
