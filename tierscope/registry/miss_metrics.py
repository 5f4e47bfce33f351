"""Metrics of why tokens were computed: what an operator can still gain, and by what."""

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
MISSES = MetricGroup(
    title="Misses",
    published_by="`tierscope collect`",
    metrics=(MISS_TOKENS,),
)
