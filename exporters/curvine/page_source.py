"""One Curvine cluster: the pool that is L2. Its units are its workers: three of four is what it says then."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from exporters.curvine.config import RemovalRules, parse_config
from exporters.curvine.fetch import MasterAnswer, Masters
from exporters.curvine.parse import PoolReading, parse_pool
from exporters.curvine.suspicion import EvictionWatch, FillRate, judge_pool
from exporters.curvine.traffic import TrafficCounter, client_counts, started_at
from exporters.fetch import Fetcher
from exporters.health import Units
from exporters.oddities import Oddity
from exporters.pages import PageReading
from exporters.pools import PoolFacts
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.pool import Viewpoint
from tierscope.registry import pool_metrics
from tierscope.registry.types import Sample


@dataclass(frozen=True, slots=True)
class _Shown:
    """What /metrics shows of the last reading."""

    pool: PoolReading
    rules: RemovalRules | None
    full_in_seconds: float | None


@dataclass(slots=True)
class CurvineSource:
    """Reads the pool named `name` from whichever of its masters is active; `facts` are told if one is.

    `counts_clients` is whether the master's sum over all clients is used: not where clients are read.
    """

    name: str
    urls: Sequence[str]
    facts: PoolFacts = field(default_factory=PoolFacts)
    counts_clients: bool = True
    units: int = 1
    """Workers as of the last reading: so many are missing when no master answers."""
    _masters: Masters = field(init=False)
    _clients: TrafficCounter = field(init=False)
    _fill: FillRate = field(default_factory=FillRate)
    _evictions: EvictionWatch = field(default_factory=EvictionWatch)
    _shown: _Shown | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def source(self) -> SourceId:
        """The pool, by its name."""
        return SourceId(SourceKind.CURVINE_MASTER, self.name)

    def __post_init__(self) -> None:
        self._masters = Masters(self.urls)
        self._clients = TrafficCounter(self.name, Viewpoint.CLIENTS)
        # Until a reading fails: the first one may be on its way while others ask who tells the size.
        self.facts.master_tells = True

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask once; raises `SourceUnreadable`, also when no master is active."""
        told = False
        try:
            reading = self._read(fetcher, at_unix_seconds)
            told = True
        finally:
            self.facts.master_tells = told
            self.facts.master_was_asked.set()
            if not told:
                self._show(None)
        return reading

    def samples(self) -> Iterator[Sample]:
        """Yield the pool's own series; absent while no master tells them."""
        with self._lock:
            shown = self._shown
        if shown is None:
            return
        yield from _pool_samples(self.name, shown.pool)
        yield from _rule_samples(self.name, shown.rules)
        if shown.full_in_seconds is not None:
            yield Sample(pool_metrics.FULL_IN, (self.name,), shown.full_in_seconds)

    def _read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        answer = self._masters.ask(fetcher)
        pool = parse_pool(answer.page, answer.workers, where=answer.url)
        reading = PageReading(
            entries=[pool.sample(self.name, at_unix_seconds)],
            units=Units(received=pool.live_workers, missing=pool.missing_workers),
            oddities=[Oddity("part of a master that cannot be read", refusal) for refusal in answer.refusals],
        )
        rules = _rules(answer, reading)
        self.units = max(1, pool.live_workers + pool.missing_workers)
        self._tell(pool)
        self._fill.add(at_unix_seconds, pool.room.used_bytes)
        claimed = self._evictions.add(pool, at_unix_seconds)
        reading.findings += judge_pool(pool, rules, self._fill, claimed, where=answer.url)
        if self.counts_clients:
            started = started_at(answer.page)
            reading.entries += self._clients.advance(
                client_counts(answer.page), at_unix_seconds, started=started
            )
        if answer.page.garbage is not None:
            garbage = answer.page.garbage
            reading.oddities.append(Oddity("unreadable metric line", garbage, answer.page.garbage_lines))
        self._show(_Shown(pool, rules, self._fill.full_in_seconds(pool.room.available_bytes)))
        return reading

    def _tell(self, pool: PoolReading) -> None:
        """Let others know what the pool holds and where its workers are."""
        self.facts.used_bytes = pool.room.used_bytes
        if pool.workers is not None:
            self.facts.workers = {w.name: w.url for w in pool.workers if w.is_live and w.url is not None}

    def _show(self, shown: _Shown | None) -> None:
        with self._lock:
            self._shown = shown


def _rules(answer: MasterAnswer, reading: PageReading) -> RemovalRules | None:
    """The master's settings; the rest of it is read where these cannot be."""
    if answer.config is None:
        return None
    try:
        return parse_config(answer.config, where=f"{answer.url}/api/config")
    except SourceUnreadable as error:
        reading.oddities.append(Oddity("part of a master that cannot be read", error))
        return None


def _pool_samples(holder: str, pool: PoolReading) -> Iterator[Sample]:
    for status, count in pool.counts.items():
        yield Sample(pool_metrics.WORKERS, (holder, status), count)
    yield Sample(pool_metrics.ALLOCATABLE, (holder,), pool.room.available_bytes)
    for worker in pool.workers or ():
        for storage, room in worker.by_storage.items():
            labels = (holder, worker.name, storage)
            yield Sample(pool_metrics.WORKER_CAPACITY, labels, room.capacity_bytes)
            yield Sample(pool_metrics.WORKER_USED, labels, room.used_bytes)
            yield Sample(pool_metrics.WORKER_AVAILABLE, labels, room.available_bytes)


def _rule_samples(holder: str, rules: RemovalRules | None) -> Iterator[Sample]:
    if rules is None:
        return
    if rules.ttl_seconds:
        yield Sample(pool_metrics.TTL, (holder, rules.ttl_action), rules.ttl_seconds)
    for mark, ratio in zip(("high", "low"), rules.watermarks or (), strict=False):
        yield Sample(pool_metrics.WATERMARK, (holder, mark), ratio)
