"""Counters of what moves between a pool and its clients, by who counted it. Pure.

Workers, FUSE clients and the master's sum of all clients count the same bytes. Each has its own series, and
the master's sum is left out where FUSE clients are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporters.counters import Counters
from exporters.exposition import Exposition
from tierscope.domain.pool import PoolTraffic, Viewpoint

Counts = dict[str, int]
"""Cumulative counters by our names: fields of `PoolTraffic`, times in microseconds."""

_WORKER = {
    "read_bytes": "read_bytes",
    "written_bytes": "write_bytes",
    "read_us": "read_time_us",
    "write_us": "write_time_us",
    "reads": "read_count",
    "writes": "write_count",
}
_CLIENT = {
    "read_bytes": "client_read_bytes",
    "written_bytes": "client_write_bytes",
    "read_us": "client_read_time_us",
    "write_us": "client_write_time_us",
}
_OPENS = "read_blocks"
_IO_BYTES = "curvine_fuse_io_bytes_total"
_IO_CALLS = "curvine_fuse_io_requests_total"
_REQUESTS = "curvine_fuse_requests_total"


def worker_counts(page: Exposition) -> Counts:
    """Read a worker's page; what never happened is not printed, and counts from 0 once it is."""
    counts = _totals(page, _WORKER)
    opens = page.named(_OPENS)
    for path in ("local", "remote") if opens else ():
        counts[f"{path}_opens"] = int(
            sum(value for series, value in opens.items() if series.labels.get("type") == path)
        )
    return counts


def client_counts(page: Exposition) -> Counts:
    """Read what clients count: one on a FUSE client's page, all of them on a master's."""
    return _totals(page, _CLIENT)


def fuse_counts(page: Exposition) -> Counts:
    """Read a FUSE client's page: its client counters, and how many reads and writes there were.

    From 0.4 on its own calls to the pool say so more exactly than the kernel's requests, which also
    stand for files outside of the pool.
    """
    counts = client_counts(page)
    for name, io_type, opcode in (("reads", "read", "Read"), ("writes", "write", "Write")):
        moved = _sum(page, _IO_BYTES, io_type=io_type, path_type="curvine")
        calls = _sum(page, _IO_CALLS, io_type=io_type, path_type="curvine", status="success")
        if moved is not None:
            counts["read_bytes" if name == "reads" else "written_bytes"] = moved
        requests = calls if calls is not None else _sum(page, _REQUESTS, opcode=opcode, status="success")
        if requests is not None:
            counts[name] = requests
    return counts


@dataclass(slots=True)
class TrafficCounter:
    """Turns the counters of one process into what moved between two readings; restarts are bridged."""

    pool: str
    seen_by: Viewpoint
    process: str = ""
    _counters: Counters[str] = field(default_factory=Counters)
    _at_unix_seconds: float = 0.0

    def advance(
        self, counts: Counts, at_unix_seconds: float, *, started: float | None = None
    ) -> Iterator[PoolTraffic]:
        """Yield what moved since the last reading; nothing at the first one and where nothing moved.

        `started` is when the process began, where its page says so.
        """
        growth = self._counters.advance(counts, started)
        since, self._at_unix_seconds = self._at_unix_seconds, at_unix_seconds
        if growth is not None and any(growth.by.values()):
            yield _traffic(self, growth.by, since, at_unix_seconds)


def started_at(page: Exposition) -> float | None:
    """When a process began, by its own page."""
    return page.total("process_start_time_seconds")


def _traffic(
    counter: TrafficCounter, by: Mapping[str, int], since: float, at_unix_seconds: float
) -> PoolTraffic:
    def seconds(name: str) -> float | None:
        return by[name] / 1e6 if name in by else None

    return PoolTraffic(
        holder=counter.pool,
        seen_by=counter.seen_by,
        process=counter.process,
        since_unix_seconds=since,
        at_unix_seconds=at_unix_seconds,
        read_bytes=by.get("read_bytes"),
        written_bytes=by.get("written_bytes"),
        read_seconds=seconds("read_us"),
        write_seconds=seconds("write_us"),
        reads=by.get("reads"),
        writes=by.get("writes"),
        local_opens=by.get("local_opens"),
        remote_opens=by.get("remote_opens"),
    )


def _totals(page: Exposition, names: Mapping[str, str]) -> Counts:
    totals = {ours: page.total(theirs) for ours, theirs in names.items()}
    return {ours: int(total) for ours, total in totals.items() if total is not None}


def _sum(page: Exposition, name: str, **labels: str) -> int | None:
    """The sum of the series with these labels, None where the page has none."""
    found = [v for series, v in page.named(name).items() if labels.items() <= series.labels.items()]
    return int(sum(found)) if found else None
