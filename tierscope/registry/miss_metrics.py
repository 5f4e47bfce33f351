"""Metrics of why tokens were computed and what that took: what an operator can still gain, and by what."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric, MetricGroup

MISS_TOKENS = Metric(
    name="tierscope_miss_tokens_total",
    kind=Kind.COUNTER,
    labels=("namespace", "endpoint", "cause"),
    help="Computed prompt tokens by why they were computed; causes exclude each other and add up. Counted "
    "from the start of the collector on, a minute or more late; absent while tier sizes are not known.",
    answers="Why are tokens computed although there are caches?",
)
MISS_SECONDS = Metric(
    name="tierscope_miss_seconds_total",
    kind=Kind.COUNTER,
    labels=("namespace", "endpoint", "cause"),
    help="TTFT that computing these tokens took, summed over requests, at what a computed token takes in the "
    "newest requests. Only of tokens counted while tokens alone explained TTFT: at other times it stands "
    "still, and it is absent until they first did.",
    answers="How much waiting for first tokens does each cause of misses make?",
)
MISS_COST = Metric(
    name="tierscope_miss_cost_total",
    kind=Kind.COUNTER,
    labels=("namespace", "endpoint", "cause", "currency"),
    help="What these seconds of a replica cost at the price of its instance, in the currency of that price. "
    "Absent where no instance type of the endpoint has a price, and until seconds are known.",
    answers="What does computing cost that a cache could have served, by what it would take?",
    allow=("no_unit",),
)
MISSES = MetricGroup(
    title="Misses",
    published_by="`tierscope collect`",
    metrics=(MISS_TOKENS, MISS_SECONDS, MISS_COST),
)
