"""From settings to sources: which pages are polled, which streams are read, and who they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporters.admissions import Admissions
from exporters.curvine.fuse_source import FuseSource
from exporters.curvine.page_source import CurvineSource
from exporters.curvine.workers_source import WorkersSource
from exporters.engines import Engines
from exporters.exposition import Exposition
from exporters.health import Health
from exporters.lmcache.in_process_source import InProcessSource
from exporters.lmcache.page_source import LmcacheSource
from exporters.lmcache.record_stream import RecordStream
from exporters.lmcache.storage_stream import StorageStream
from exporters.lmcache.suspicion import ServerJudge
from exporters.lookups import Lookups
from exporters.managed_tier import ManagedTierSource
from exporters.mount.page_source import MountSource
from exporters.page_state import Counted
from exporters.pages import PageSource
from exporters.pools import PoolFacts, Pools
from exporters.private import KeyedHash
from exporters.storage_reads import StorageReads
from exporters.streams import Stream, StreamMeaning
from exporters.vllm.event_stream import EventStream
from exporters.vllm.hook_stream import HookStream
from exporters.vllm.page_source import EnginePageSource
from exporters.vllm.residency import Residency
from tierscope.analytics.chunk_names import PromptNames
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.settings import (
    CurvineSettings,
    EngineSettings,
    ExporterSettings,
    InProcessLmcacheSettings,
    LmcacheSettings,
)
from tierscope.feed.sockets import Context
from tierscope.feed.stream_subscriber import StreamSubscriber


def engine_id(engine: EngineSettings) -> EngineId:
    """Return the engine that settings describe."""
    return EngineId(engine.namespace, engine.endpoint, engine.replica, engine.rank)


def link(settings: ExporterSettings, engines: Engines) -> None:
    """Say of every engine which cache it loads from; saying it again changes nothing."""
    for engine in settings.engines:
        engines.loads_from(engine_id(engine), engine.lmcache)


def page_sources(
    settings: ExporterSettings, engines: Engines, pools: Pools, *, began_unix_seconds: float
) -> Iterator[PageSource]:
    """Yield what is polled: each engine page once, however many engines share it, L1s, pools."""
    link(settings, engines)
    scanned = {mount.pool for mount in settings.mounts}
    behind: dict[str, list[EngineId]] = {}
    for engine in settings.engines:
        if engine.metrics_url is not None:
            behind.setdefault(engine.metrics_url, []).append(engine_id(engine))
    pages: dict[str, EnginePageSource] = {}
    for url, known in behind.items():
        pages[url] = EnginePageSource(url, known, engines, began_unix_seconds)
        yield pages[url]
    for inside in settings.lmcache_in_process:
        # Its page does not name its L2: without a pool it may well be the managed tier.
        pools.managed_tier.used_by_server[inside.name] = inside.pool is None
        for engine in settings.engines:
            if engine.lmcache == inside.name:
                yield InProcessSource(
                    inside,
                    engines.facts(engine_id(engine)),
                    _latest(pages.get(engine.metrics_url or "")),
                    pool_is_scanned=inside.pool_is_scanned or inside.pool in scanned,
                )
    for server in settings.lmcache:
        yield LmcacheSource(
            name=server.name,
            url=server.url,
            pool=server.pool or server.name,
            engines=engines.behind(server.name),
            pool_is_scanned=server.pool_is_scanned or server.pool in scanned,
            records_are_read=server.records_endpoint is not None,
            coordinator_is_read=server.coordinator_port is not None,
            pool_facts=None if server.pool is None else pools.facts(server.pool),
            managed_tier=pools.managed_tier,
        )
    for pool in settings.curvine:
        yield from _pool_sources(pool, pools.facts(pool.name))
    if settings.managed_tier_file is not None:
        yield ManagedTierSource(settings.managed_tier_file, pools.managed_tier)


def _pool_sources(pool: CurvineSettings, facts: PoolFacts) -> Iterator[PageSource]:
    """Yield a pool's masters as one source, its workers as another, and each FUSE client."""
    yield CurvineSource(pool.name, pool.master_urls, facts, counts_clients=not pool.fuse_urls)
    if pool.read_workers:
        yield WorkersSource(pool.name, facts)
    for url in pool.fuse_urls:
        yield FuseSource(pool.name, url)


def _latest(page: EnginePageSource | None) -> Callable[[], Exposition | None]:
    """What is asked for an engine's latest page."""
    return lambda: None if page is None else page.latest


def mount_sources(
    settings: ExporterSettings,
    pools: Pools,
    hash_secret: KeyedHash,
    *,
    clock: Callable[[], float],
    monotonic: Callable[[], float],
) -> Iterator[MountSource]:
    """Yield the pools that are scanned where they are mounted; they are polled like pages."""
    for mount in settings.mounts:
        yield MountSource(mount, pools.facts(mount.pool), hash_secret, clock=clock, monotonic=monotonic)


_Described = tuple[SourceId, StreamMeaning, str, str | None]
"""A stream before it is opened: its source, what it means, its address, and where it replays."""


class StreamOpener:
    """Opens the streams of engines and cache servers: connects, but reads nothing yet.

    `counted_of` makes what of a stream the page counts.
    """

    def __init__(
        self,
        engines: Engines,
        hash_secret: KeyedHash,
        context: Context,
        counted_of: Callable[[SourceId], Counted] = lambda _: Counted(),
    ) -> None:
        self._counted_of = counted_of
        self._engines = engines
        self._hash_secret = hash_secret
        self.context = context
        self._names = PromptNames()

    def open_all(
        self, settings: ExporterSettings, health_of: Callable[[SourceId], Health]
    ) -> Iterator[Stream]:
        """Yield every stream that the settings name; cache servers' first, whose lookups admissions want.

        `health_of` makes the health of a source. Raises `BadSettings` for an address that is none.
        """
        link(settings, self._engines)
        for source, meaning, endpoint, replay_endpoint in self._all(settings):
            subscriber = StreamSubscriber(endpoint, replay_endpoint, source=str(source), context=self.context)
            yield Stream(subscriber, meaning, health_of(source), self._counted_of(source))

    def _all(self, settings: ExporterSettings) -> Iterator[_Described]:
        for server in settings.lmcache:
            yield from self._open_server(server, settings)
        for inside in settings.lmcache_in_process:
            yield from self._open_storages(inside, settings)
        for engine in settings.engines:
            yield from self._open_engine(engine)

    def _open_storages(
        self, inside: InProcessLmcacheSettings, settings: ExporterSettings
    ) -> Iterator[_Described]:
        """Yield the storage hook's stream of each worker of the engine that an LMCache is in."""
        if not inside.storage_endpoints:
            return
        reads = StorageReads(inside.name, inside.workers)
        self._engines.tell_lookups(inside.name, reads)
        scanned = inside.pool_is_scanned or inside.pool in {mount.pool for mount in settings.mounts}
        for worker, endpoint in enumerate(inside.storage_endpoints):
            owner = inside.name if inside.workers == 1 else f"{inside.name}/{worker}"
            source = SourceId(SourceKind.LMCACHE_RECORDS, owner)
            pool = inside.pool or inside.name
            meaning = StorageStream(pool, worker, reads, where=str(source), pool_is_scanned=scanned)
            replays = inside.storage_replay_endpoints
            yield (source, meaning, endpoint, replays[worker] if replays else None)

    def _open_server(self, server: LmcacheSettings, settings: ExporterSettings) -> Iterator[_Described]:
        if server.records_endpoint is None:
            return
        source = SourceId(SourceKind.LMCACHE_RECORDS, server.name)
        lookups = Lookups(self._names)
        self._engines.tell_lookups(server.name, lookups)
        scanned = server.pool_is_scanned or server.pool in {mount.pool for mount in settings.mounts}
        meaning = RecordStream(
            server.name,
            server.pool or server.name,
            lookups,
            where=str(source),
            judge=ServerJudge(str(source), server.prefill_tokens_per_second),
            pool_is_scanned=scanned,
        )
        yield (source, meaning, server.records_endpoint, server.records_replay_endpoint)

    def _open_engine(self, engine: EngineSettings) -> Iterator[_Described]:
        """Yield the streams that the settings of one engine name."""
        identity = engine_id(engine)
        facts = self._engines.facts(identity)
        if engine.events_endpoint is not None:
            source = SourceId(SourceKind.VLLM_EVENTS, str(identity))
            facts.residency = Residency(holder=str(identity), where=str(source))
            meaning = EventStream(facts.residency, engine.rank, where=str(source))
            yield (source, meaning, engine.events_endpoint, engine.events_replay_endpoint)
        if engine.hook_endpoint is not None:
            source = SourceId(SourceKind.VLLM_HOOK, str(identity))
            hook = HookStream(Admissions(identity, facts, self._hash_secret), where=str(source))
            yield (source, hook, engine.hook_endpoint, engine.hook_replay_endpoint)
