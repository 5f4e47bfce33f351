"""The shared pool: its workers, its room, what moves, what lies in it."""

from __future__ import annotations

from dashboards.promql import bucket_rate, gauge, one_of, quantile, rate, ratio, sum_by
from dashboards.variables import HERE, HOLDER_LABELS
from tierscope.registry.metrics import (
    POOL_FILE_BYTES,
    POOL_REMOVED_BLOCKS,
    POOL_SCAN_AGE_SECONDS,
    POOL_STORED_BLOCKS,
)
from tierscope.registry.pool_metrics import (
    ALLOCATABLE,
    BLOCK_OPENS,
    FULL_IN,
    FUSE_ERRORS,
    IO_SECONDS,
    MOVED_BYTES,
    TTL,
    WATERMARK,
    WORKER_AVAILABLE,
    WORKER_CAPACITY,
    WORKERS,
)
from tierscope.registry.types import Metric


def _once(metric: Metric, *labels: str) -> str:
    """A reading of a pool that every exporter whose node mounts it publishes, taken once."""
    return one_of("max", gauge(metric, HERE), *HOLDER_LABELS, *labels)


def workers_by_status() -> str:
    """Workers of all pools by status."""
    return sum_by(_once(WORKERS, "status"), "status")


def emptiest_and_fullest_worker(operation: str) -> str:
    """Share of a worker's size that is left, of the worker that has `min` or `max` of it."""
    left = sum_by(_once(WORKER_AVAILABLE, "worker", "storage"), *HOLDER_LABELS, "worker")
    size = sum_by(_once(WORKER_CAPACITY, "worker", "storage"), *HOLDER_LABELS, "worker")
    return one_of(operation, ratio(left, size), *HOLDER_LABELS)


def allocatable() -> str:
    """Bytes that new chunks can still take, by pool."""
    return _once(ALLOCATABLE)


def full_in() -> str:
    """Seconds until a pool is full."""
    return one_of("min", gauge(FULL_IN, HERE), *HOLDER_LABELS)


def time_to_live() -> str:
    """Age at which a pool's files are removed, and how."""
    return _once(TTL, "action")


def watermarks() -> str:
    """Fill at which a pool begins and ends to evict."""
    return _once(WATERMARK, "mark")


def io_seconds(share: float) -> str:
    """Seconds that this share of the reads and writes of FUSE clients did not take longer than."""
    return quantile(share, bucket_rate(IO_SECONDS, HERE), "direction")


def moved_bytes() -> str:
    """Bytes a second read and written, as each side saw them."""
    return sum_by(rate(MOVED_BYTES, HERE), "seen_by", "direction")


def remote_ratio() -> str:
    """Share of the blocks opened for reading that came over the network."""
    return ratio(sum_by(rate(BLOCK_OPENS, HERE, path="remote")), sum_by(rate(BLOCK_OPENS, HERE)))


def errors() -> str:
    """Requests a second that failed at FUSE clients, where there are any."""
    return f"{sum_by(rate(FUSE_ERRORS, HERE), 'operation', 'errno')} > 0"


def file_bytes(label: str) -> str:
    """Bytes of the pools' files by their kind, or by their model."""
    return sum_by(_once(POOL_FILE_BYTES, "kind", "model"), label)


def scan_age() -> str:
    """Seconds since a pool's directory was last scanned, by whoever is ahead."""
    return one_of("min", gauge(POOL_SCAN_AGE_SECONDS, HERE), *HOLDER_LABELS)


def came_and_went(metric: Metric) -> str:
    """Chunks a second whose files a scan found new, or gone, by model."""
    return sum_by(rate(metric, HERE), "model")


CAME, WENT = POOL_STORED_BLOCKS, POOL_REMOVED_BLOCKS
