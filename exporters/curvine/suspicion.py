"""What is wrong with a pool, judged from its processes' pages: each with its numbers and what to do. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from exporters.curvine.config import DEFAULT_BLOCK_BYTES, RemovalRules
from exporters.curvine.parse import PoolReading
from exporters.oddities import Finding
from tierscope.domain.errors import BadInput
from tierscope.domain.pool import PoolTraffic
from tierscope.domain.severity import Severity
from tierscope.domain.units import format_bytes

RATE_SECONDS = 3600.0
"""How far back the fill rate looks."""

FEWEST_RATE_SECONDS = 60.0
"""No rate is told from a shorter time: one burst of stores is not how a pool fills."""

SOON_SECONDS = 24 * 3600.0
"""A pool that is full so soon is urgent."""

RECENT_SECONDS = 900.0
"""How long a store that failed, or an eviction that freed nothing, goes on being told."""

HIDDEN_SHARE = 0.01
"""Share of short-circuit opens from which a worker's bytes are not to be trusted."""

WRITING = ("Write", "Flush", "Release", "FSync", "Fsync", "Create")
NO_ROOM = ("EIO", "ENOSPC")


class PoolSuspect(StrEnum):
    """What is wrong with a pool."""

    NEVER_EVICTS = "l2_never_evicts"
    """Nothing ever leaves the pool: no TTL that deletes. When it is full, stores fail."""
    FULL = "pool_full"
    """No worker has room for one more block: a store ends in EIO, and caches keep quiet about it."""
    STORES_FAIL = "pool_stores_fail"
    """Writes to the pool failed for want of room lately."""
    WORKER_LOST = "pool_worker_lost"
    """Workers are not there: with one copy of each block, their chunks are misses."""
    PHANTOM_EVICTION = "phantom_eviction"
    """The master counts evicted bytes, but the pool holds as much as before; its counters are not used."""
    HIDDEN_BYTES = "short_circuit_hides_bytes"
    """Clients read blocks past their worker, whose byte counters are too small for it."""


@dataclass(slots=True)
class FillRate:
    """How fast a pool fills, from the readings of the last hour."""

    _readings: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, at_unix_seconds: float, used_bytes: int) -> None:
        """Take a reading; a pool that was emptied, or a clock set back, starts it anew."""
        last = self._readings[-1] if self._readings else None
        if last is not None and (used_bytes < last[1] or at_unix_seconds < last[0]):
            self._readings.clear()
        self._readings.append((at_unix_seconds, used_bytes))
        while at_unix_seconds - self._readings[0][0] > RATE_SECONDS:
            self._readings.popleft()

    @property
    def bytes_per_second(self) -> float | None:
        """None while the readings do not go back far enough."""
        if not self._readings:
            return None
        (since, before), (until, now) = self._readings[0], self._readings[-1]
        return (now - before) / (until - since) if until - since >= FEWEST_RATE_SECONDS else None

    def full_in_seconds(self, available_bytes: int) -> float | None:
        """Time until so much is filled at this rate; None where it is not known or does not fill."""
        rate = self.bytes_per_second
        return available_bytes / rate if rate else None


@dataclass(slots=True)
class EvictionWatch:
    """Sets what the master says it freed against what the pool holds."""

    _freed: int | None = None
    _used: int = 0
    _claimed: int = 0
    _at: float = 0.0

    def add(self, pool: PoolReading, at_unix_seconds: float) -> int:
        """Take a reading; return the bytes said to be freed lately though the pool did not shrink."""
        freed, used = pool.freed_bytes, pool.room.used_bytes
        if freed is not None and self._freed is not None and freed > self._freed:
            self._claimed, self._at = (freed - self._freed if used >= self._used else 0), at_unix_seconds
        self._freed, self._used = freed, used
        return self._claimed if at_unix_seconds - self._at <= RECENT_SECONDS else 0


def judge_pool(
    pool: PoolReading, rules: RemovalRules | None, fill: FillRate, claimed_bytes: int, *, where: str
) -> Iterator[Finding]:
    """Judge what the master says; `rules` are None where it does not tell its settings."""
    if rules is not None and not rules.removes and not pool.ttl_files:
        yield _never_evicts(pool, rules, fill, where)
    block_bytes = DEFAULT_BLOCK_BYTES if rules is None else rules.block_bytes
    if pool.live_workers and _is_full(pool, block_bytes):
        yield _finding(
            PoolSuspect.FULL,
            Severity.CRITICAL,
            f"the pool is full: {format_bytes(pool.room.available_bytes)} are left on {pool.live_workers} "
            "live "
            f"workers, and none has more than one block ({format_bytes(block_bytes)}) free, which it needs "
            "for a "
            f"new chunk; {format_bytes(pool.room.used_bytes)} of {format_bytes(pool.room.capacity_bytes)} "
            "are used",
            where,
            "delete old chunk files or add workers, and set client.ttl-action=delete with a finite "
            "client.ttl-ms; "
            "until then each store ends in EIO, and what it wanted to keep is computed again",
        )
    if pool.missing_workers:
        yield _worker_lost(pool, where)
    if claimed_bytes:
        yield _finding(
            PoolSuspect.PHANTOM_EVICTION,
            Severity.WARNING,
            f"the master says it evicted {format_bytes(claimed_bytes)}, but the pool still holds "
            f"{format_bytes(pool.room.used_bytes)}, no less than before",
            where,
            "its eviction counters are not used: removals are what the directory's scan finds. Eviction only "
            "deletes files whose TTL is over; give them one",
        )


def judge_traffic(seen: PoolTraffic, *, where: str) -> Iterator[Finding]:
    """Judge what all workers together counted since the exporter began."""
    local, remote = seen.local_opens or 0, seen.remote_opens or 0
    if not local or local < HIDDEN_SHARE * (local + remote):
        return
    yield _finding(
        PoolSuspect.HIDDEN_BYTES,
        Severity.INFO,
        f"{local} of {local + remote} blocks ({local / (local + remote):.0%}) were opened past their worker "
        "(short circuit): those bytes are in no worker's read_bytes",
        where,
        "use the FUSE clients' bytes (seen_by fuse), or all clients' (seen_by clients); to have workers "
        "count "
        "all, set client.short_circuit=false, which costs local reads their speed",
    )


def judge_errors(recent: int, example: str, *, where: str) -> Iterator[Finding]:
    """Writes of a FUSE client that failed for want of room within the last quarter of an hour."""
    if recent:
        yield _finding(
            PoolSuspect.STORES_FAIL,
            Severity.CRITICAL,
            f"{recent} writes to the pool failed for want of room in the last {RECENT_SECONDS / 60:.0f} "
            "minutes "
            f"({example})",
            where,
            "make room: delete old chunk files or add workers, and let files expire "
            "(client.ttl-action=delete, client.ttl-ms)",
        )


def _never_evicts(pool: PoolReading, rules: RemovalRules, fill: FillRate, where: str) -> Finding:
    left = fill.full_in_seconds(pool.room.available_bytes)
    rate = fill.bytes_per_second
    speed = (
        "how fast it fills is not known yet"
        if rate is None
        else f"it fills by {format_bytes(rate * 3600)} an hour"
        + ("" if left is None else f" and is full in {left / 3600:.1f} hours at that rate")
    )
    ttl = "no ttl_ms" if not rules.ttl_seconds else f"ttl_ms of {rules.ttl_seconds:.0f} s"
    quota = "" if rules.watermarks is None else "; quota eviction is on, but deletes only what has expired"
    return _finding(
        PoolSuspect.NEVER_EVICTS,
        Severity.CRITICAL if left is not None and left < SOON_SECONDS else Severity.WARNING,
        f"nothing ever leaves the pool: the master has {ttl} with ttl_action {rules.ttl_action}, and no file "
        "has "
        f"a TTL{quota}. It holds {format_bytes(pool.room.used_bytes)} of "
        f"{format_bytes(pool.room.capacity_bytes)}; " + speed,
        where,
        "set client.ttl-action=delete and a finite client.ttl-ms in the StorageClass (they apply to new "
        "files), "
        "and delete old chunks once by hand; action free keeps files that are nowhere else",
    )


def _worker_lost(pool: PoolReading, where: str) -> Finding:
    total = pool.live_workers + pool.missing_workers
    missing = [worker for worker in pool.workers or () if not worker.is_live]
    named = "; missing: " + ", ".join(f"{w.name} ({w.status})" for w in missing) if missing else ""
    held = sum(worker.room.used_bytes for worker in missing)
    return _finding(
        PoolSuspect.WORKER_LOST,
        Severity.WARNING if pool.live_workers else Severity.CRITICAL,
        f"the pool's size is of {pool.live_workers} workers of {total}{named}"
        + (f". They held {format_bytes(held)} when they were last heard of" if held else ""),
        where,
        "bring the workers back, or remove them from the cluster; with client.replicas=1 their chunks are "
        "misses",
    )


def _is_full(pool: PoolReading, block_bytes: int) -> bool:
    """No worker takes a block unless more than one is free; of a page alone only the sum is known."""
    if pool.workers is None:
        return pool.room.available_bytes <= block_bytes * pool.live_workers
    return all(worker.room.available_bytes <= block_bytes for worker in pool.workers if worker.is_live)


def _finding(suspect: PoolSuspect, severity: Severity, what: str, where: str, fix: str) -> Finding:
    return Finding(suspect, severity, BadInput(what, where=where, fix=fix))
