"""The `/metrics` page of one API server, for all the engines behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.engines import Engines
from exporters.exposition import Exposition, SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.health import Units
from exporters.oddities import Finding, Oddity
from exporters.pages import PageReading
from exporters.vllm.counters import EngineCounters, EngineGrowth
from exporters.vllm.offloading import OffloadCounters, OffloadReading, read_offloading
from exporters.vllm.parse import CacheConfig, EnginePage, PromptCounters, parse_engine_page
from exporters.vllm.readings import EngineKey
from exporters.vllm.servers import Server, Servers
from exporters.vllm.suspicion import Suspect
from tierscope.domain.errors import BadInput, SourceUnreadable
from tierscope.domain.events import CounterState, EngineTokens, TierActivity, TierSample
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier


@dataclass(frozen=True, slots=True)
class _Span:
    """From the last reading to this one, and when the counters began; None where the page does not say."""

    since: float
    at: float
    began: float | None


@dataclass(slots=True)
class EnginePageSource:
    """Reads one address. `known` are the engines said to be behind it, at least one.

    Counters that began after `began_unix_seconds`, or after an earlier reading, count from 0; all others
    count from the first reading of them.
    """

    url: str
    known: Sequence[EngineId]
    engines: Engines
    began_unix_seconds: float
    latest: Exposition | None = None
    """The page as last read, for who reads other series of it; None where the last try failed."""
    _cache: SeriesCache = field(default_factory=SeriesCache)
    _servers: dict[EngineKey, Servers] = field(default_factory=dict)
    _read_at: float | None = None

    @property
    def source(self) -> SourceId:
        """The page, by the first of its engines."""
        return SourceId(SourceKind.VLLM_METRICS, str(self.known[0]))

    @property
    def units(self) -> int:
        """The engines that should be on the page."""
        return len(self.known)

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:
        """Ask once; raises `SourceUnreadable`, also for a page that is no engine's."""
        self.latest = None
        exposition = parse_exposition(fetcher.get(self.url), where=self.url, cache=self._cache)
        page = parse_engine_page(exposition, where=self.url)
        if not page.counters:
            raise SourceUnreadable(
                "the page has no counters of a vLLM engine",
                where=self.url,
                fix="check that this is a vLLM engine's page, of release 0.8 or later",
            )
        self.latest = exposition
        reading = PageReading(oddities=list(page.oddities), findings=list(page.findings))
        later = self._read_at is not None
        since, self._read_at = self._read_at or self.began_unix_seconds, at_unix_seconds
        labels = {counters.engine_label for counters in page.counters}
        offloads = read_offloading(exposition)
        blocks = {config.engine_label: config.block_tokens for config in page.configs}
        for counters in page.counters:
            engine = self._engine(counters.engine_label, labels)
            if engine is None:
                reading.oddities.append(self._stranger(counters.engine_label))
                continue
            facts = self.engines.facts(engine)
            facts.model = facts.model or counters.model
            server, several = self._server(counters, since, later=later)
            known = server.counters
            # The store would take another server's counters for a new life, of which all is new.
            began = None if several or server.is_other else counters.created_unix_seconds
            span = _Span(since, at_unix_seconds, began)
            growth = known.advance(counters)
            if several:
                reading.findings.append(self._several(engine))
            reading.restarted |= growth is not None and growth.restarted
            reading.entries += _entries(engine, counters.model, known, growth, span)
            offload = offloads.get((counters.model, counters.engine_label))
            if offload is not None:
                copied = self._offload_counters(server, counters, engine, later=later)
                block_tokens = blocks.get(counters.engine_label)
                reading.entries += copied.advance(offload, block_tokens, since, at_unix_seconds)
        hosts = {key[1]: offload for key, offload in offloads.items()}
        reading.entries += self._samples(page, labels, hosts, at_unix_seconds)
        reading.units = self._units(labels)
        return reading

    def _units(self, labels: set[str]) -> Units:
        """How many of the engines that should be on the page are."""
        here = sum(self._engine(label, labels) in self.known for label in labels)
        here = min(here, len(self.known))
        return Units(received=here, missing=len(self.known) - here)

    def _server(self, counters: PromptCounters, since: float, *, later: bool) -> tuple[Server, bool]:
        """Whose counters these are, and whether several servers tell those of this engine.

        `later` when the page was read before without them.
        """
        servers = self._servers.setdefault((counters.model, counters.engine_label), Servers())
        from_zero = self._are_new(counters, later=later)
        server = servers.of(counters, from_zero=from_zero, read_before_unix_seconds=since)
        return server, servers.several

    def _offload_counters(
        self, server: Server, counters: PromptCounters, engine: EngineId, *, later: bool
    ) -> OffloadCounters:
        if server.offload is None:
            from_zero = self._are_new(counters, later=later)
            server.offload = OffloadCounters(str(engine), from_zero)
        return server.offload

    def _are_new(self, counters: PromptCounters, *, later: bool) -> bool:
        """Whether all that an engine's counters say is of our time."""
        created = counters.created_unix_seconds
        return later or (created is not None and created >= self.began_unix_seconds)

    def _engine(self, label: str, labels: set[str]) -> EngineId | None:
        """Whose series have this label: the engine of that rank, or the only one there is."""
        for engine in self.known:
            if str(engine.rank) == label:
                return engine
        first = self.known[0]
        if len(self.known) == len(labels) == 1:
            return first  # a rank behind an API server of its own may count from 0 there
        if not label.isdecimal():
            return None
        return EngineId(first.namespace, first.endpoint, first.replica, int(label))

    def _samples(
        self,
        page: EnginePage,
        labels: set[str],
        hosts: Mapping[str, OffloadReading],
        at_unix_seconds: float,
    ) -> Iterator[TierSample]:
        usage = {counters.engine_label: counters.usage_ratio for counters in page.counters}
        for config in page.configs:
            engine = self._engine(config.engine_label, labels)
            if engine is not None:
                pinned = _pinned_blocks(usage.get(config.engine_label), config.blocks)
                host = hosts.get(config.engine_label)
                yield from self._samples_of(engine, config, pinned, host, at_unix_seconds)

    def _samples_of(
        self,
        engine: EngineId,
        config: CacheConfig,
        pinned_blocks: int | None,
        host: OffloadReading | None,
        at_unix_seconds: float,
    ) -> Iterator[TierSample]:
        facts = self.engines.facts(engine)
        facts.block_tokens = facts.block_tokens or config.block_tokens
        for tier in Tier:
            held = facts.residency.held(tier) if facts.residency is not None else None
            capacity = config.blocks if tier is Tier.L0 else None
            told = None if held is None or tier is Tier.L0 else held.block_tokens
            offload = host if tier is Tier.L1 and host is not None and host.host_bytes is not None else None
            if capacity is not None or held is not None or offload is not None:
                yield TierSample(
                    tier=tier,
                    holder=str(engine),
                    at_unix_seconds=at_unix_seconds,
                    capacity_bytes=None if offload is None else offload.host_bytes,
                    pinned_bytes=None if offload is None else offload.pinned_bytes,
                    capacity_blocks=capacity,
                    used_blocks=None if held is None else held.distinct,
                    block_tokens=told or config.block_tokens,
                    pinned_blocks=pinned_blocks if tier is Tier.L0 else None,
                    duplicate_blocks=None if held is None else held.duplicates,
                    orphan_blocks=None if held is None else held.orphans,
                )

    def _several(self, engine: EngineId) -> Finding:
        error = BadInput(
            f"several servers answer in turn with counters of their own for engine {engine}; each is counted "
            "from when it was first read, and what grows on one that is not asked again is missing",
            where=self.url,
            fix="give each API server or pod a metrics_url of its own, or let the API servers of one engine "
            "share PROMETHEUS_MULTIPROC_DIR, as --api-server-count does",
        )
        return Finding(Suspect.SEVERAL_SERVERS, Severity.WARNING, error)

    def _stranger(self, label: str) -> Oddity:
        error = BadInput(
            f"the page has an engine {label!r}, which is no rank", where=self.url, fix="report the release"
        )
        return Oddity("engine label that is no rank", error)


def _entries(
    engine: EngineId, model: str, counted: EngineCounters, growth: EngineGrowth | None, span: _Span
) -> Iterator[EngineTokens | TierActivity]:
    """What an engine did since the last reading; nothing where nothing grew.

    The first reading tells what the counters stand at, though nobody saw them grow.
    """
    total, lookups = _total(counted.total, span.began), _lookups(counted.lookups, span.began)
    if growth is None:
        if total is not None:
            yield EngineTokens(engine, model, span.at, span.at, NO_TOKENS, total)
        if lookups is not None:
            yield TierActivity(Tier.L0, str(engine), span.at, span.at, 0, 0, total=lookups)
        return
    if growth.tokens.prompt:
        yield EngineTokens(engine, model, span.since, span.at, growth.tokens, total)
    if growth.queries and growth.lookups is not None:
        hit, missed = growth.lookups
        yield TierActivity(Tier.L0, str(engine), span.since, span.at, hit, missed, total=lookups)


def _total(tokens: TokenSplit, began_unix_seconds: float | None) -> CounterState | None:
    if began_unix_seconds is None:
        return None
    return CounterState(began_unix_seconds, tuple(tokens.as_dict().values()))


def _lookups(lookups: tuple[int, int] | None, began_unix_seconds: float | None) -> CounterState | None:
    if began_unix_seconds is None or lookups is None:
        return None
    return CounterState(began_unix_seconds, lookups)


def _pinned_blocks(usage_ratio: float | None, blocks: int | None) -> int | None:
    """Blocks that running requests use; the engine tells their share of all that a prefix can live in."""
    return None if usage_ratio is None or blocks is None else round(min(usage_ratio, 1.0) * blocks)
