"""Metrics of what cache servers move: into L1 and L2 and out of them, how long it takes, what fails."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric, MetricGroup

TASK_BUCKETS_SECONDS = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0,
    30.0,
)  # fmt: skip

_MOVES = ("tier", "holder", "adapter")

TIER_LOAD_SECONDS = Metric(
    name="tierscope_tier_load_seconds",
    kind=Kind.HISTOGRAM,
    labels=_MOVES,
    help="Time that a cache server's task took to load chunks from a tier, by the adapter of L2.",
    answers="How long does L2 itself take, apart from what a request waits for?",
    buckets=TASK_BUCKETS_SECONDS,
)
STORE_SECONDS = Metric(
    name="tierscope_store_seconds",
    kind=Kind.HISTOGRAM,
    labels=_MOVES,
    help="Time that a cache server's task took to store chunks in a tier, by the adapter of L2.",
    answers="Does the pool take what is written to it fast enough?",
    buckets=TASK_BUCKETS_SECONDS,
)
TRANSFERRED_BYTES = Metric(
    name="tierscope_transferred_bytes_total",
    kind=Kind.COUNTER,
    labels=(*_MOVES, "action"),
    help="Bytes that a cache server moved: action store into the tier, load out of it.",
    answers="How fast is a tier, and how much is written to it for what is read?",
)
TRANSFERRED_BLOCKS = Metric(
    name="tierscope_transferred_blocks_total",
    kind=Kind.COUNTER,
    labels=(*_MOVES, "action"),
    help="Objects that a cache server moved (a chunk has one for each KV rank), by action: store, load.",
    answers="How many chunks are loaded for each one stored?",
)
FAILED_TRANSFERS = Metric(
    name="tierscope_failed_transfer_blocks_total",
    kind=Kind.COUNTER,
    labels=("tier", "holder", "action", "reason"),
    help="Objects that were to be stored or loaded and were not, by the server's reason, e.g. l1_full, "
    "expired, l1_oom, not_found.",
    answers="Why does a tier not keep what it answered to have stored, or not give what it has?",
)

TRANSFERS = MetricGroup(
    title="What cache servers move",
    published_by="`tierscope export` where the probe runs in the cache server",
    metrics=(TIER_LOAD_SECONDS, STORE_SECONDS, TRANSFERRED_BYTES, TRANSFERRED_BLOCKS, FAILED_TRANSFERS),
)
