"""Metrics of single blocks: how long they stay, how soon they are wanted again, what they are good for."""

from __future__ import annotations

from tierscope.registry.labels import ENGINE
from tierscope.registry.types import Kind, Metric, MetricGroup

AGE_BUCKETS_SECONDS = (
    0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0,
    14400.0, 28800.0, 86400.0,
)  # fmt: skip
"""From the turn of a conversation to a day: both the time blocks stay and the time until they are wanted."""

FILL = Metric(
    name="tierscope_fill_ratio",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Share of a tier's blocks that hold a cached block, every copy counted, from its events.",
    answers="Has L0 wrapped, so that each new block costs an old one?",
)
PINNED_BLOCKS = Metric(
    name="tierscope_pinned_blocks",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Blocks of a tier that running requests use now; cached blocks beyond these can be evicted.",
    answers="Is L0 full of running requests, or only of prefixes that may go?",
)
DUPLICATE_BLOCKS = Metric(
    name="tierscope_duplicate_blocks",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Copies of resident blocks beyond the first.",
    answers="How much of a tier is spent on holding the same block twice?",
)
ORPHAN_BLOCKS = Metric(
    name="tierscope_orphan_blocks",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Resident blocks that no request can hit, because a block before them in their prefix is gone.",
    answers="How much of a tier is dead weight?",
)
EVICTED_AGE = Metric(
    name="tierscope_evicted_age_seconds",
    kind=Kind.HISTOGRAM,
    labels=("tier", "holder"),
    help="Time from the storing of a block to its eviction for want of room; each copy counts.",
    answers="How long does a tier keep a block before it has to go?",
    buckets=AGE_BUCKETS_SECONDS,
)
REUSE_GAP = Metric(
    name="tierscope_reuse_gap_seconds",
    kind=Kind.HISTOGRAM,
    labels=(*ENGINE, "tier"),
    help="Time between two requests for the same block on one engine, by where it came from the second time.",
    answers="After how long are blocks wanted again, and which tier still has them then?",
    buckets=AGE_BUCKETS_SECONDS,
)
UNASKED_TOKENS = Metric(
    name="tierscope_unasked_tokens_total",
    kind=Kind.COUNTER,
    labels=ENGINE,
    help="Prompt tokens of served requests that look in no cache by their nature (prompt_logprobs, some "
    "pooling); they are computed, and in no hit ratio of the engine.",
    answers="How much of what was computed could no cache have served?",
)

BLOCKS = MetricGroup(
    title="Blocks",
    published_by="`tierscope export`",
    metrics=(FILL, PINNED_BLOCKS, DUPLICATE_BLOCKS, ORPHAN_BLOCKS, EVICTED_AGE, REUSE_GAP, UNASKED_TOKENS),
)
