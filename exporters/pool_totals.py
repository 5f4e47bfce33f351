"""Running totals of what moved between pools and their clients.

Not thread-safe: the ledger holds the lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tierscope.domain.pool import PoolTraffic
from tierscope.registry import pool_metrics
from tierscope.registry.types import Metric, Sample

_MOVES: tuple[tuple[Metric, str, str], ...] = (
    (pool_metrics.MOVED_BYTES, "read", "read_bytes"),
    (pool_metrics.MOVED_BYTES, "write", "written_bytes"),
    (pool_metrics.MOVING_SECONDS, "read", "read_seconds"),
    (pool_metrics.MOVING_SECONDS, "write", "write_seconds"),
    (pool_metrics.MOVES, "read", "reads"),
    (pool_metrics.MOVES, "write", "writes"),
)
"""Counters, their direction and the field of `PoolTraffic` they add up."""

_OPENS = (("local", "local_opens"), ("remote", "remote_opens"))


class PoolTotals:
    """Sums of everything that moved so far, by who counted it."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Metric, tuple[str, ...]], float] = defaultdict(float)

    def count(self, traffic: PoolTraffic) -> None:
        """Add what one process counted; what it does not count stays absent."""
        for metric, direction, field in _MOVES:
            labels = (traffic.holder, traffic.seen_by.value, traffic.process, direction)
            self._add(metric, labels, getattr(traffic, field))
        for path, field in _OPENS:
            opens = getattr(traffic, field)
            self._add(pool_metrics.BLOCK_OPENS, (traffic.holder, traffic.process, path), opens)

    def samples(self) -> Iterator[Sample]:
        """Yield the present sums."""
        for (metric, labels), value in self._sums.items():
            yield Sample(metric, labels, value)

    def _add(self, metric: Metric, labels: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            self._sums[metric, labels] += value
