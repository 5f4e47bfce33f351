"""One Curvine cluster: the pool that is L2. Its units are its workers: three of four is what it says then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from exporters.curvine.fetch import fetch_active_master
from exporters.curvine.parse import parse_pool
from exporters.exposition import SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.health import Units
from exporters.oddities import Oddity
from exporters.pages import PageReading
from exporters.pools import PoolFacts
from tierscope.domain.identity import SourceId, SourceKind


@dataclass(slots=True)
class CurvineSource:
    """Reads the pool named `name` from whichever of its masters is active; `facts` are told if one is."""

    name: str
    urls: Sequence[str]
    facts: PoolFacts = field(default_factory=PoolFacts)
    units: int = 1
    """Workers as of the last reading: so many are missing when no master answers."""
    _cache: SeriesCache = field(default_factory=SeriesCache)

    @property
    def source(self) -> SourceId:
        """The pool, by its name."""
        return SourceId(SourceKind.CURVINE_MASTER, self.name)

    def __post_init__(self) -> None:
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
        return reading

    def _read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        answer = fetch_active_master(fetcher, self.urls)
        page = parse_exposition(answer.metrics, where=f"{answer.url}/metrics", cache=self._cache)
        pool = parse_pool(page, answer.workers, where=answer.url)
        self.units = max(1, pool.live_workers + len(pool.lost_workers))
        reading = PageReading(
            entries=[pool.sample(self.name, at_unix_seconds)],
            oddities=[*pool.oddities(answer.url)],
            units=Units(received=pool.live_workers, missing=len(pool.lost_workers)),
        )
        if page.garbage is not None:
            reading.oddities.append(Oddity("unreadable metric line", page.garbage, page.garbage_lines))
        return reading
