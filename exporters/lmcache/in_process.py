"""LMCache inside an engine, from the `lmcache:*` series of its workers, as what L1 and L2 hold and did.

Each worker of an engine (tensor and pipeline parallel) has a part of every chunk and counts the same
lookups. So tokens and chunks are those of the worker that counted most, and only bytes are summed. Every
worker brings its counters to its page once in ten seconds, so what all of them did may be told by one first.

No series names a tier. Tokens that were retrieved came from L2 where a chunk was read from there, all others
from L1; tokens that were found but not retrieved were in L0 already, and count for neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.counters import Counters
from exporters.exposition import Exposition, Series
from tierscope.domain.events import TierActivity, TierSample
from tierscope.domain.tiers import Tier
from tierscope.registry import engine_metrics as rows

COUNTERS = {
    "requested": rows.INSIDE_REQUESTED,
    "found": rows.INSIDE_FOUND,
    "retrieve_asked": rows.INSIDE_RETRIEVE_ASKED,
    "retrieved": rows.INSIDE_RETRIEVED,
    "stored_tokens": rows.INSIDE_STORED,
    "prompt_tokens": rows.INSIDE_PROMPT,
    "l1_evicted": rows.INSIDE_L1_EVICTED,
    "l1_refused": rows.INSIDE_L1_REFUSED,
    "l2_reads": rows.INSIDE_L2_READS,
    "l2_read_bytes": rows.INSIDE_L2_READ_BYTES,
    "l2_written": rows.INSIDE_L2_WRITTEN,
    "l2_written_bytes": rows.INSIDE_L2_WRITTEN_BYTES,
}
"""Our names of the counters read: tokens, then chunks; `l1_refused` are allocations, `l2_reads` calls."""

GAUGES = {
    "l1_bytes": rows.INSIDE_L1_BYTES,
    "l1_chunks": rows.INSIDE_L1_CHUNKS,
    "l1_pinned": rows.INSIDE_L1_PINNED,
    "disk_bytes": rows.INSIDE_DISK_BYTES,
    "l2_bytes": rows.INSIDE_L2_BYTES,
    "retrieve_ratio": rows.INSIDE_RETRIEVE_RATIO,
}
HISTOGRAMS = {"l2_batch_reads": rows.INSIDE_L2_READ_TIME, "lifespans": rows.INSIDE_LIFESPAN}
"""Our names of what is not a counter; of histograms, how often they were filled is read."""

_READ_AS_GAUGES = {name: row.names for name, row in GAUGES.items()} | {
    name: tuple(f"{one}_count" for one in row.names) for name, row in HISTOGRAMS.items()
}


@dataclass(frozen=True, slots=True)
class WorkerReading:
    """What the LMCache of one worker says; what its release does not say is absent.

    `name` tells workers apart. The scheduler's has no L1, and is in `serves` False.
    """

    name: str
    serves: bool
    counters: Mapping[str, int]
    gauges: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class InProcessReading:
    """The workers of one engine at one time, and what is the same in all of them."""

    workers: tuple[WorkerReading, ...]
    chunk_tokens: int | None = None
    l1_capacity_bytes: float | None = None
    """Of one worker."""

    @property
    def serving(self) -> tuple[WorkerReading, ...]:
        """Those that hold a part of every chunk."""
        return tuple(worker for worker in self.workers if worker.serves)

    def most(self, name: str) -> int | None:
        """A counter as of the worker that counted most, None where none has it."""
        return max((one.counters[name] for one in self.workers if name in one.counters), default=None)

    def largest(self, name: str) -> float | None:
        """A gauge of the worker that has most, None where none has it."""
        return max((one.gauges[name] for one in self.serving if name in one.gauges), default=None)

    def sum(self, name: str) -> float | None:
        """A gauge summed over the workers, None where none has it."""
        found = [one.gauges[name] for one in self.serving if name in one.gauges]
        return sum(found) if found else None

    @property
    def resident_chunks(self) -> int | None:
        """Chunks in L1; None where the gauge says none although L1 holds bytes."""
        chunks = self.largest("l1_chunks")
        return None if chunks is None or (not chunks and self.sum("l1_bytes")) else int(chunks)

    def samples(self, holder: str, at_unix_seconds: float) -> list[TierSample]:
        """Return the readings of L1 and, where a worker has a disk of its own, of that as L2."""
        readings = [
            TierSample(
                tier=Tier.L1,
                holder=holder,
                at_unix_seconds=at_unix_seconds,
                capacity_bytes=self.l1_capacity_bytes and self.l1_capacity_bytes * len(self.serving),
                used_bytes=self.sum("l1_bytes"),
                used_blocks=self.resident_chunks,
                block_tokens=self.chunk_tokens,
                pinned_blocks=_whole(self.largest("l1_pinned")),
            )
        ]
        disk_bytes = self.sum("disk_bytes")
        if disk_bytes:
            readings.append(TierSample(Tier.L2, holder, at_unix_seconds, used_bytes=disk_bytes))
        return readings


def read_workers(pages: Iterable[Exposition]) -> tuple[WorkerReading, ...]:
    """Return what the pages say, one reading a worker; a worker that is on two pages counts once."""
    counters: dict[tuple[str, str], dict[str, int]] = {}
    gauges: dict[tuple[str, str], dict[str, float]] = {}
    for page in pages:
        for name, metric in COUNTERS.items():
            for worker, value in _by_worker(page, metric.spellings).items():
                counters.setdefault(worker, {})[name] = int(value)
        for name, spellings in _READ_AS_GAUGES.items():
            for worker, value in _by_worker(page, spellings).items():
                gauges.setdefault(worker, {})[name] = value
    return tuple(
        WorkerReading(
            "/".join(worker), worker[0] != "scheduler", counters.get(worker, {}), gauges.get(worker, {})
        )
        for worker in sorted(counters.keys() | gauges.keys())
    )


def _by_worker(page: Exposition, names: Sequence[str]) -> dict[tuple[str, str], float]:
    """A family by worker, under the first of its names that the page has; summed over other labels."""
    found: dict[tuple[str, str], float] = {}
    for series, value in next(filter(None, (page.named(name) for name in names)), {}).items():
        if 0 <= value < float("inf"):
            found[_worker(series)] = found.get(_worker(series), 0.0) + value
    return found


def _worker(series: Series) -> tuple[str, str]:
    return series.labels.get("role", "worker"), series.labels.get("worker_id", "0")


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


@dataclass(slots=True)
class InProcessActivity:
    """Turns the counters of one engine's workers into what its tiers did between two readings.

    `name` holds L1, `pool` L2. Used by one thread.
    """

    name: str
    pool: str
    _counters: dict[str, Counters[str]] = field(default_factory=dict)
    _grown: dict[str, dict[str, int]] = field(default_factory=dict)
    """Growth since the first reading, by worker; a worker that comes later has done what the others did."""
    _told: dict[str, int] = field(default_factory=dict)
    _at_unix_seconds: float | None = None

    def advance(self, reading: InProcessReading, at_unix_seconds: float) -> tuple[list[TierActivity], bool]:
        """Take a reading; return what the tiers did since the last one, and whether a worker restarted."""
        restarted = False
        for worker in reading.workers:
            known = self._counters.setdefault(worker.name, Counters())
            growth = known.advance(worker.counters)
            if growth is None:
                self._grown[worker.name] = dict(self._most())
                continue
            restarted |= growth.restarted
            grown = self._grown[worker.name]
            for name, tokens in growth.by.items():
                grown[name] = grown.get(name, 0) + tokens
        since, self._at_unix_seconds = self._at_unix_seconds, at_unix_seconds
        if since is None:
            return [], False
        totals = _tier_totals(self._most(), reading.chunk_tokens, has_disk=bool(reading.sum("disk_bytes")))
        return self._activities(totals, since, at_unix_seconds), restarted

    def _most(self) -> dict[str, int]:
        """What the worker that counted most grew by, for each counter."""
        most: dict[str, int] = {}
        for grown in self._grown.values():
            for name, value in grown.items():
                most[name] = max(value, most.get(name, 0))
        return most

    def _activities(self, totals: Mapping[str, int], since: float, until: float) -> list[TierActivity]:
        new = {name: self._new(name, total) for name, total in totals.items()}
        l1 = TierActivity(
            tier=Tier.L1,
            holder=self.name,
            since_unix_seconds=since,
            at_unix_seconds=until,
            lookup_hit_tokens=new.get("l1_hit"),
            lookup_miss_tokens=new.get("l1_miss"),
            evicted_blocks=new.get("l1_evicted"),
        )
        l2 = TierActivity(
            tier=Tier.L2,
            holder=self.pool,
            since_unix_seconds=since,
            at_unix_seconds=until,
            lookup_hit_tokens=new.get("l2_hit"),
            lookup_miss_tokens=new.get("l2_miss"),
            stored_blocks=new.get("l2_written"),
        )
        return [l1, l2]

    def _new(self, name: str, total: int) -> int:
        """What of a total was not told yet. Totals made of several counters may step back for a moment."""
        told = self._told.get(name, 0)
        self._told[name] = max(told, total)
        return max(0, total - told)


def _tier_totals(most: Mapping[str, int], chunk_tokens: int | None, *, has_disk: bool) -> dict[str, int]:
    """Return tokens hit and missed by tier, and chunks written and evicted; what cannot be told is absent.

    A disk of the worker's own counts nothing, so with one nobody knows what L1 served.
    """
    totals = {name: most[name] for name in ("l1_evicted", "l2_written") if name in most}
    read = _chunks_read(most)
    requested = most.get("requested", most.get("retrieve_asked"))
    if requested is None or has_disk or (read and chunk_tokens is None):
        return totals
    found = most.get("found", most.get("retrieved", 0))
    l2_hit = read * (chunk_tokens or 0)
    totals["l1_hit"] = max(0, (most.get("retrieved") or found) - l2_hit)
    totals["l1_miss"] = max(0, requested - found) + l2_hit
    totals["l2_hit"] = l2_hit
    totals["l2_miss"] = max(0, requested - found)
    return totals


def _chunks_read(most: Mapping[str, int]) -> int:
    """Chunks read from L2. A call that reads several counts once, so they are told from their bytes.

    Writes are counted chunk by chunk, which tells the bytes of one; without any, a call is a chunk.
    """
    calls, written_bytes = most.get("l2_reads", 0), most.get("l2_written_bytes", 0)
    if not written_bytes or "l2_read_bytes" not in most:
        return calls
    return round(most["l2_read_bytes"] * most.get("l2_written", 0) / written_bytes)
