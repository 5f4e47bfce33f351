"""One LMCache multiprocess server: L1 of its node, and its view of L2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from exporters.engines import EngineFacts
from exporters.exposition import SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.lmcache.attachment import judge_server, server_bytes, uses_managed_tier
from exporters.lmcache.parse import ServerActivity, ServerStatus, parse_counters, parse_status
from exporters.lmcache.suspicion import split_untold
from exporters.oddities import Oddity
from exporters.pages import PageReading
from exporters.pools import ManagedTier, PoolFacts
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierActivity
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.tiers import Tier


@dataclass(slots=True)
class LmcacheSource:
    """Reads the server named `name` at a base address; `engines` are those that load from it.

    `pool` is the holder of its L2: the pool's name, or the server's own where it has none. Where the
    `pool_is_scanned`, what was stored there and evicted is told by the scan, chunk by chunk, and the
    counters of this are left out. Where `records_are_read`, the probe's stream tells all that is counted, and
    the page tells sizes alone; where the `coordinator_is_read`, that tells what was stored and evicted.
    `pool_facts` are those of the pool it should write to, None without one.
    """

    name: str
    url: str
    pool: str
    engines: Sequence[EngineFacts]
    pool_is_scanned: bool = False
    records_are_read: bool = False
    coordinator_is_read: bool = False
    pool_facts: PoolFacts | None = None
    managed_tier: ManagedTier = field(default_factory=ManagedTier)
    units: int = 1
    _cache: SeriesCache = field(default_factory=SeriesCache)
    _activity: ServerActivity = field(init=False)

    def __post_init__(self) -> None:
        self._activity = ServerActivity(server=self.name, pool=self.pool)

    @property
    def source(self) -> SourceId:
        """The server, by its name."""
        return SourceId(SourceKind.LMCACHE_METRICS, self.name)

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask once; raises `SourceUnreadable`, also for a page that is not this kind of server's."""
        base = self.url.rstrip("/")
        page = parse_exposition(fetcher.get(f"{base}/metrics"), where=f"{base}/metrics", cache=self._cache)
        counters = parse_counters(page)
        if not counters:
            raise SourceUnreadable(
                "the page has no lmcache_mp_ counters",
                where=f"{base}/metrics",
                fix="check that it is an LMCache multiprocess server, started without --otlp-endpoint: "
                "with it, the server pushes its metrics and this page is empty",
            )
        reading = PageReading()
        self.managed_tier.used_by_server[self.name] = uses_managed_tier(page)
        if self.pool_facts is not None:
            reading.findings += judge_server(page, self.pool, where=base)
            held = server_bytes(page)
            if held is not None:
                self.pool_facts.cache_bytes[self.name] = held
        if page.garbage is not None:
            reading.oddities.append(Oddity("unreadable metric line", page.garbage, page.garbage_lines))
        if page.repeat is not None:
            reading.oddities.append(Oddity("series told twice", page.repeat, page.repeated_lines))
        status = self._status(fetcher, f"{base}/status", reading)
        incarnation = None if status is None else status.incarnation
        activities, reading.restarted = self._activity.advance(counters, incarnation, at_unix_seconds)
        if not self.records_are_read:
            if self.engines:
                reading.findings.append(split_untold(self.name, base))
            reading.entries += map(self._without_told, activities)
        if status is not None:
            reading.entries.append(status.sample(self.name, at_unix_seconds))
            for facts in self.engines:
                facts.chunk_tokens = status.chunk_tokens
        return reading

    def _without_told(self, activity: TierActivity) -> TierActivity:
        if self.coordinator_is_read or (self.pool_is_scanned and activity.tier is Tier.L2):
            return replace(activity, stored_blocks=None, evicted_blocks=None)
        return activity

    def _status(self, fetcher: Fetcher, url: str, reading: PageReading) -> ServerStatus | None:
        """The server's sizes; its counters are used even where these cannot be had."""
        try:
            return parse_status(fetcher.get(url), where=url)
        except SourceUnreadable as error:
            reading.oddities.append(Oddity("status that cannot be read", error))
            return None
