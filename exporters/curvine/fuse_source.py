"""One FUSE client of a pool: what its node reads and writes there, how long that takes, what fails."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import urlsplit

from exporters.counters import Counters
from exporters.curvine.parse import Role, require_role
from exporters.curvine.suspicion import NO_ROOM, RECENT_SECONDS, WRITING, judge_errors
from exporters.curvine.traffic import TrafficCounter, fuse_counts, started_at
from exporters.exposition import Exposition, SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.oddities import Oddity
from exporters.pages import PageReading
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.pool import Viewpoint
from tierscope.registry import pool_metrics
from tierscope.registry.types import HistogramValue, Sample

_CALLS = "curvine_fuse_io_duration_us"
"""From 0.4 on: the client's own calls to the pool."""
_REQUESTS = "curvine_fuse_request_duration_us"
"""Before: the kernel's requests, from their arrival to their answer."""

Direction = str
Failure = tuple[str, str]
"""Operation and error number."""


@dataclass(slots=True)
class FuseSource:
    """Reads the FUSE client at a base address, a client of the pool named `pool`."""

    pool: str
    url: str
    units: int = 1
    _cache: SeriesCache = field(default_factory=SeriesCache)
    _traffic: TrafficCounter = field(init=False)
    _buckets: Counters[tuple[Direction, float]] = field(default_factory=Counters)
    _times: dict[Direction, tuple[list[int], float]] = field(default_factory=dict)
    _errors: Counters[Failure] = field(default_factory=Counters)
    _failed: dict[Failure, int] = field(default_factory=dict)
    _no_room: deque[tuple[float, int]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._traffic = TrafficCounter(self.pool, Viewpoint.FUSE, self.process)

    @property
    def process(self) -> str:
        """The client, by its address."""
        return urlsplit(self.url).netloc

    @property
    def source(self) -> SourceId:
        """The client, by its pool and address."""
        return SourceId(SourceKind.CURVINE_FUSE, f"{self.pool}/{self.process}")

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask once; raises `SourceUnreadable`, also for a page that is no FUSE client's."""
        where = f"{self.url.rstrip('/')}/metrics"
        page = parse_exposition(fetcher.get(where), where=where, cache=self._cache)
        fix = "give the client's web port (9002; 9003 from the release of August 2026 on)"
        require_role(page, Role.FUSE, fix, where=where)
        started = started_at(page)
        reading = PageReading(
            entries=list(self._traffic.advance(fuse_counts(page), at_unix_seconds, started=started))
        )
        if page.garbage is not None:
            reading.oddities.append(Oddity("unreadable metric line", page.garbage, page.garbage_lines))
        with self._lock:
            self._time(page, started)
            self._fail(page, started, at_unix_seconds)
        recent = sum(count for _, count in self._no_room)
        example = ", ".join(f"{op} {errno}" for op, errno in self._failed if _is_no_room(op, errno))
        reading.findings += judge_errors(recent, example, where=where)
        return reading

    def samples(self) -> Iterator[Sample]:
        """Yield times and failures since the exporter began."""
        with self._lock:
            times = {
                direction: (tuple(counts), seconds) for direction, (counts, seconds) in self._times.items()
            }
            failed = dict(self._failed)
        for direction, (counts, seconds) in times.items():
            labels = (self.pool, self.process, direction)
            yield Sample(pool_metrics.IO_SECONDS, labels, HistogramValue(counts, seconds))
        for (operation, errno), count in failed.items():
            yield Sample(pool_metrics.FUSE_ERRORS, (self.pool, self.process, operation, errno), count)

    def _time(self, page: Exposition, started: float | None) -> None:
        """Add what the histograms grew by; their sums are in microseconds and travel as one more bucket."""
        growth = self._buckets.advance(_histograms(page), started)
        for (direction, edge), count in (growth.by if growth else {}).items():
            counts, seconds = self._times.setdefault(direction, ([0] * (len(_EDGES) + 1), 0.0))
            if edge == _SUM:
                self._times[direction] = counts, seconds + count / 1e6
            else:
                counts[_place(edge)] += count

    def _fail(self, page: Exposition, started: float | None, at_unix_seconds: float) -> None:
        growth = self._errors.advance(_failures(page), started)
        for failure, count in (growth.by if growth else {}).items():
            if count:
                self._failed[failure] = self._failed.get(failure, 0) + count
                if _is_no_room(*failure):
                    self._no_room.append((at_unix_seconds, count))
        while self._no_room and at_unix_seconds - self._no_room[0][0] > RECENT_SECONDS:
            self._no_room.popleft()


_EDGES = pool_metrics.IO_BUCKETS_SECONDS
_SUM = -1.0


def _histograms(page: Exposition) -> dict[tuple[Direction, float], int]:
    """Counts by direction and upper edge in microseconds, not cumulative, and the sum of each direction."""
    found: dict[tuple[Direction, float], int] = {}
    own = bool(page.named(f"{_CALLS}_bucket"))
    name = _CALLS if own else _REQUESTS
    for direction, opcode in (("read", "Read"), ("write", "Write")):
        wanted = {"io_type": direction, "path_type": "curvine"} if own else {"opcode": opcode}
        cumulative: dict[float, int] = {0.0: 0}
        for series, value in page.named(f"{name}_bucket").items():
            if wanted.items() <= series.labels.items() and math.isfinite(value):
                edge = float(series.labels.get("le", "nan"))
                cumulative[edge] = cumulative.get(edge, 0) + int(value)
        if len(cumulative) > 1:
            edges = sorted(edge for edge in cumulative if not math.isnan(edge))
            found |= {(direction, b): max(0, cumulative[b] - cumulative[a]) for a, b in pairwise(edges)}
            sums = page.named(f"{name}_sum").items()
            found[direction, _SUM] = int(sum(v for s, v in sums if wanted.items() <= s.labels.items()))
    return found


def _place(edge_microseconds: float) -> int:
    """Which of our buckets one of theirs is in; an edge we do not have goes to the next one above."""
    seconds = edge_microseconds / 1e6
    return next((i for i, edge in enumerate(_EDGES) if seconds <= edge * (1 + 1e-9)), len(_EDGES))


def _failures(page: Exposition) -> dict[Failure, int]:
    found: dict[Failure, int] = {}
    for series, value in page.named("curvine_fuse_errors_total").items():
        key = series.labels.get("opcode", "unknown"), series.labels.get("errno", "unknown")
        found[key] = found.get(key, 0) + int(value)
    return found


def _is_no_room(operation: str, errno: str) -> bool:
    return operation in WRITING and errno in NO_ROOM
