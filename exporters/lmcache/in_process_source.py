"""LMCache inside one engine as a source: the series of its workers, from their own pages or the engine's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from exporters.documents import read_document
from exporters.engines import EngineFacts
from exporters.exposition import Exposition, SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.health import Units
from exporters.lmcache.attachment import judge_engine
from exporters.lmcache.in_process import InProcessActivity, InProcessReading, read_workers
from exporters.lmcache.in_process_suspicion import judge_in_process
from exporters.oddities import Oddity
from exporters.pages import PageReading
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierActivity
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.settings import InProcessLmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB


class _Configuration(msgspec.Struct):
    """What `/conf` says of sizes; in GiB, of one worker."""

    chunk_size: int | None = None
    local_cpu: bool = True
    max_local_cpu_size: float | None = None


@dataclass(slots=True)
class InProcessSource:
    """Reads the LMCache inside one engine, whose facts it completes.

    `engine_page` is the latest page of the engine, None until there is one; it is looked at where the
    settings name no pages of LMCache's own. A worker that is on no page is missing, and its part with it.
    """

    settings: InProcessLmcacheSettings
    facts: EngineFacts
    engine_page: Callable[[], Exposition | None]
    pool_is_scanned: bool = False
    _caches: dict[str, SeriesCache] = field(default_factory=dict)
    _activity: InProcessActivity = field(init=False)

    def __post_init__(self) -> None:
        pool = self.settings.pool or self.settings.name
        self._activity = InProcessActivity(self.settings.name, pool)

    @property
    def source(self) -> SourceId:
        """The LMCache, by its name."""
        return SourceId(SourceKind.LMCACHE_METRICS, self.settings.name)

    @property
    def units(self) -> int:
        """The workers that should be on the pages."""
        return self.settings.workers

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask once; raises `SourceUnreadable` where no page has a series of LMCache's."""
        result = PageReading()
        pages = self._pages(fetcher, result)
        reading = InProcessReading(read_workers(pages), *self._sizes(fetcher))
        if not reading.workers:
            raise self._nothing()
        here = min(len(reading.serving), self.units)
        result.units = Units(received=here, missing=self.units - here)
        self.facts.chunk_tokens = self.facts.chunk_tokens or reading.chunk_tokens
        result.findings += judge_in_process(reading, where=str(self.source))
        if self.settings.pool is not None:
            stored, size = reading.most("stored_tokens"), reading.chunk_tokens
            chunks = stored // size if stored is not None and size else None
            written = reading.most("l2_written")
            result.findings += judge_engine(chunks, written, self.settings.pool, where=str(self.source))
        activities, result.restarted = self._activity.advance(reading, at_unix_seconds)
        result.entries += map(self._without_told, activities)
        result.entries += reading.samples(self.settings.name, at_unix_seconds)
        return result

    def _pages(self, fetcher: Fetcher, result: PageReading) -> list[Exposition]:
        """Every page there is. One of several that cannot be read costs its worker alone."""
        if not self.settings.urls:
            page = self.engine_page()
            return [] if page is None else [page]
        pages: list[Exposition] = []
        for base in self.settings.urls:
            url = f"{base.rstrip('/')}/metrics"
            try:
                body = fetcher.get(url)
            except SourceUnreadable as error:
                result.oddities.append(Oddity("page of a worker that cannot be read", error))
                continue
            pages.append(parse_exposition(body, where=url, cache=self._caches.setdefault(url, SeriesCache())))
        for page in pages:
            if page.garbage is not None:
                result.oddities.append(Oddity("unreadable metric line", page.garbage, page.garbage_lines))
            if page.repeat is not None:
                result.oddities.append(Oddity("series told twice", page.repeat, page.repeated_lines))
        return pages

    def _sizes(self, fetcher: Fetcher) -> tuple[int | None, float | None]:
        """Tokens of a chunk and bytes of one worker's L1: as set, else as LMCache's own pages have it."""
        chunk_tokens = self.settings.chunk_tokens
        l1_bytes = self.settings.l1_bytes
        for base in self.settings.urls if None in (chunk_tokens, l1_bytes) else ():
            url = f"{base.rstrip('/')}/conf"
            try:
                found = read_document(fetcher.get(url), _Configuration, where=url)
            except SourceUnreadable:  # releases before 0.3.7 have no such page; the sizes stay unknown
                continue
            if l1_bytes is None and found.local_cpu and found.max_local_cpu_size is not None:
                l1_bytes = found.max_local_cpu_size * GIB
            chunk_tokens = chunk_tokens or found.chunk_size
            break
        return chunk_tokens or self.facts.chunk_tokens, l1_bytes

    def _without_told(self, activity: TierActivity) -> TierActivity:
        """Leave out what a scan, the storage hook or the workers' messages tell chunk by chunk."""
        if self.settings.controller_endpoint is not None and activity.tier is Tier.L1:
            return replace(activity, evicted_blocks=None)
        told_elsewhere = self.pool_is_scanned or self.settings.storage_endpoints
        if told_elsewhere and activity.tier is Tier.L2:
            return replace(activity, stored_blocks=None)
        return activity

    def _nothing(self) -> SourceUnreadable:
        pages = ", ".join(self.settings.urls) or "the engine's page"
        return SourceUnreadable(
            "no page has an lmcache: series",
            where=f"{self.settings.name}: {pages}",
            fix="share PROMETHEUS_MULTIPROC_DIR between the engine's API server and its workers, or set "
            "internal_api_server_enabled and give those addresses as `urls`",
        )
