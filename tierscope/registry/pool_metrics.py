"""Metrics of the shared pool: its workers, what moves between it and its clients, when it will be full."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric, MetricGroup

IO_BUCKETS_SECONDS = (
    1e-05, 5e-05, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
)  # fmt: skip
"""The edges of Curvine's FUSE client, so that its buckets are ours."""

_MOVED = ("holder", "seen_by", "process", "direction")
_WORKER = ("holder", "worker", "storage")

WORKERS = Metric(
    name="tierscope_pool_workers",
    kind=Kind.GAUGE,
    labels=("holder", "status"),
    help="Workers of a pool by status: live, blacklist, decommission, lost, unknown.",
    answers="Do all workers of the pool take part?",
    allow=("no_unit",),
)
WORKER_CAPACITY = Metric(
    name="tierscope_pool_worker_capacity_bytes",
    kind=Kind.GAUGE,
    labels=_WORKER,
    help="Size of a worker's working directories of one kind of storage.",
    answers="Which worker holds how much of the pool, on what?",
)
WORKER_USED = Metric(
    name="tierscope_pool_worker_used_bytes",
    kind=Kind.GAUGE,
    labels=_WORKER,
    help="Bytes of blocks in a worker's directories of one kind of storage.",
    answers="Does one worker fill before the others?",
)
WORKER_AVAILABLE = Metric(
    name="tierscope_pool_worker_available_bytes",
    kind=Kind.GAUGE,
    labels=_WORKER,
    help="Bytes a worker could still take in directories of one kind of storage, whatever its status.",
    answers="How much room is left, and where?",
)
ALLOCATABLE = Metric(
    name="tierscope_pool_allocatable_bytes",
    kind=Kind.GAUGE,
    labels=("holder",),
    help="Bytes that new chunks can still take: room on live workers alone.",
    answers="Will the pool take the next chunk?",
)
FULL_IN = Metric(
    name="tierscope_pool_full_in_seconds",
    kind=Kind.GAUGE,
    labels=("holder",),
    help="Time until the pool is full if it goes on filling as it did of late; absent while it does not "
    "fill.",
    answers="How long until stores fail, in a pool that removes nothing?",
)
TTL = Metric(
    name="tierscope_pool_ttl_seconds",
    kind=Kind.GAUGE,
    labels=("holder", "action"),
    help="Age at which files are removed (action delete) by the master's settings; absent without a TTL.",
    answers="Does anything ever leave the pool?",
)
WATERMARK = Metric(
    name="tierscope_pool_eviction_watermark_ratio",
    kind=Kind.GAUGE,
    labels=("holder", "mark"),
    help="Fill at which eviction begins (high) and ends (low); absent where the master's settings have it "
    "off.",
    answers="At what fill does the pool try to make room?",
)
MOVED_BYTES = Metric(
    name="tierscope_pool_moved_bytes_total",
    kind=Kind.COUNTER,
    labels=_MOVED,
    help="Bytes read from and written to a pool, as a worker, a FUSE client or all clients counted them. The "
    "same bytes pass several: never add over `seen_by`.",
    answers="What does the pool carry, and does each side see the same?",
)
MOVING_SECONDS = Metric(
    name="tierscope_pool_moving_seconds_total",
    kind=Kind.COUNTER,
    labels=_MOVED,
    help="Time that reads and writes of a pool took, added up; divided by their number it is their latency.",
    answers="Is the pool slow, or the network between it and its clients?",
)
MOVES = Metric(
    name="tierscope_pool_moves_total",
    kind=Kind.COUNTER,
    labels=_MOVED,
    help="Reads and writes of a pool, of a part of a block each.",
    answers="How large is one read?",
    allow=("no_unit",),
)
BLOCK_OPENS = Metric(
    name="tierscope_pool_block_opens_total",
    kind=Kind.COUNTER,
    labels=("holder", "process", "path"),
    help="Blocks of a worker opened for reading: remote over the network, local past the worker, whose "
    "counters "
    "do not see those bytes.",
    answers="Which share of the reads crosses nodes, and are there bytes nobody counts?",
    allow=("no_unit",),
)
IO_SECONDS = Metric(
    name="tierscope_pool_io_seconds",
    kind=Kind.HISTOGRAM,
    labels=("holder", "process", "direction"),
    help="Time of one read or write at a FUSE client: its call to the pool, before Curvine 0.4 the whole "
    "request.",
    answers="How long does a cache wait for the pool?",
    buckets=IO_BUCKETS_SECONDS,
)
FUSE_ERRORS = Metric(
    name="tierscope_pool_errors_total",
    kind=Kind.COUNTER,
    labels=("holder", "process", "operation", "errno"),
    help="Requests that failed at a FUSE client. ENOENT of a lookup is a chunk that is not there, EIO of a "
    "write "
    "a pool without room.",
    answers="Do stores fail, and how often is a missing chunk asked for?",
    allow=("no_unit",),
)

POOL = MetricGroup(
    title="The pool's processes",
    published_by="`tierscope export` where Curvine is read",
    metrics=(
        WORKERS,
        WORKER_CAPACITY,
        WORKER_USED,
        WORKER_AVAILABLE,
        ALLOCATABLE,
        FULL_IN,
        TTL,
        WATERMARK,
        MOVED_BYTES,
        MOVING_SECONDS,
        MOVES,
        BLOCK_OPENS,
        IO_SECONDS,
        FUSE_ERRORS,
    ),
)
