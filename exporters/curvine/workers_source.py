"""Every worker of a pool, found through its master: what they read and wrote, and who does not answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from exporters.curvine.parse import Role, require_role
from exporters.curvine.suspicion import judge_traffic
from exporters.curvine.traffic import TrafficCounter, started_at, worker_counts
from exporters.exposition import Exposition, SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.health import Units
from exporters.oddities import Oddity
from exporters.pages import PageReading
from exporters.pools import PoolFacts
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.pool import PoolTraffic, Viewpoint

FIRST_ANSWER_SECONDS = 10.0
"""How long the first reading waits to be told of any worker."""

AT_ONCE = 8
"""Workers asked at the same time: one that hangs delays its neighbours by its own time-out, and no more."""


@dataclass(slots=True)
class _Known:
    """What is kept of one worker from one reading to the next."""

    counter: TrafficCounter
    cache: SeriesCache = field(default_factory=SeriesCache)


@dataclass(slots=True)
class WorkersSource:
    """Reads all workers of the pool named `name` that its master's reader put into `facts`."""

    name: str
    facts: PoolFacts
    first_answer_seconds: float = FIRST_ANSWER_SECONDS
    _known: dict[str, _Known] = field(default_factory=dict)
    _seen: PoolTraffic = field(init=False)
    """Opens of all workers since the exporter began."""

    def __post_init__(self) -> None:
        self._seen = PoolTraffic(self.name, Viewpoint.WORKER, "", 0.0, 0.0, local_opens=0, remote_opens=0)

    @property
    def source(self) -> SourceId:
        """The pool's workers, by its name."""
        return SourceId(SourceKind.CURVINE_WORKERS, self.name)

    @property
    def units(self) -> int:
        """The workers known."""
        return max(1, len(self.facts.workers or ()))

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask every worker once; raises `SourceUnreadable` when none can be read."""
        self.facts.master_was_asked.wait(self.first_answer_seconds)
        workers = dict(self.facts.workers or {})
        if not workers:
            raise SourceUnreadable(
                "no worker is known",
                where=str(self.source),
                fix="let the exporter reach /api/workers of the active master: it names the workers",
            )
        reading = PageReading(units=Units())
        with ThreadPoolExecutor(min(AT_ONCE, len(workers))) as pool:
            read = partial(self._page, fetcher)
            pages = dict(zip(workers, pool.map(read, workers, workers.values()), strict=True))
        self._known = {name: known for name, known in self._known.items() if name in workers}
        for name, page in pages.items():
            self._take(name, page, at_unix_seconds, reading)
        if not reading.units.received:
            raise SourceUnreadable(
                f"none of {len(workers)} workers can be read",
                where=", ".join(workers.values()),
                fix="let the exporter reach the workers' web ports",
            )
        reading.findings += judge_traffic(self._seen, where=str(self.source))
        return reading

    def _page(self, fetcher: Fetcher, name: str, url: str) -> Exposition | SourceUnreadable:
        """Read one worker's page; runs beside others, and touches what is this worker's alone."""
        known = self._known.get(name)
        where = f"{url}/metrics"
        try:
            cache = None if known is None else known.cache
            page = parse_exposition(fetcher.get(where), where=where, cache=cache)
            require_role(page, Role.WORKER, "check the web_port that the worker registers", where=where)
        except SourceUnreadable as error:
            return error
        return page

    def _take(
        self, name: str, page: Exposition | SourceUnreadable, at_unix_seconds: float, reading: PageReading
    ) -> None:
        if isinstance(page, SourceUnreadable):
            reading.units.add(Units(missing=1))
            reading.oddities.append(Oddity("worker that cannot be read", page))
            return
        reading.units.add(Units(received=1))
        if page.garbage is not None:
            reading.oddities.append(Oddity("unreadable metric line", page.garbage, page.garbage_lines))
        known = self._known.setdefault(name, _Known(TrafficCounter(self.name, Viewpoint.WORKER, name)))
        for traffic in known.counter.advance(worker_counts(page), at_unix_seconds, started=started_at(page)):
            reading.entries.append(traffic)
            self._seen = replace(
                self._seen,
                local_opens=(self._seen.local_opens or 0) + (traffic.local_opens or 0),
                remote_opens=(self._seen.remote_opens or 0) + (traffic.remote_opens or 0),
            )
