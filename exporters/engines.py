"""What several readers know of one engine, shared between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from exporters.lookups import LookupKeeper
from exporters.vllm.residency import Residency
from tierscope.domain.identity import EngineId
from tierscope.registry.types import Sample


@dataclass(slots=True, eq=False)
class EngineFacts:
    """What is known of one engine from any of its sources; None until one of them says it.

    Each field is set by one reader and read by others; a reader sees the old or the new value. `lookups` are
    those of the cache server it loads from, None where that does not tell them.
    """

    model: str | None = None
    block_tokens: int | None = None
    chunk_tokens: int | None = None
    residency: Residency | None = None
    lookups: LookupKeeper | None = None


@dataclass(slots=True)
class Engines:
    """The engines of this node, and those that turn up beside them on a page.

    An engine and the cache it loads from may be opened in either order, and one of them alone anew.
    """

    _facts: dict[EngineId, EngineFacts] = field(default_factory=dict)
    _caches: dict[EngineId, str] = field(default_factory=dict)
    _behind: dict[str, list[EngineFacts]] = field(default_factory=dict)
    _lookups: dict[str, LookupKeeper] = field(default_factory=dict)

    def facts(self, engine: EngineId) -> EngineFacts:
        """Return the facts of an engine, empty ones for one that is new."""
        return self._facts.setdefault(engine, EngineFacts())

    def loads_from(self, engine: EngineId, cache: str | None) -> None:
        """Say which cache an engine loads from, in place of the one before; None: from none."""
        facts, before = self.facts(engine), self._caches.get(engine)
        if before == cache:
            return
        if before is not None:
            self._behind[before].remove(facts)
            del self._caches[engine]
        if cache is not None:
            self._caches[engine] = cache
            self.behind(cache).append(facts)
        facts.lookups = None if cache is None else self._lookups.get(cache)

    def behind(self, cache: str) -> list[EngineFacts]:
        """The engines that load from a cache: a list that goes on following who does."""
        return self._behind.setdefault(cache, [])

    def tell_lookups(self, cache: str, lookups: LookupKeeper) -> None:
        """Give a cache's lookups to the engines that load from it, now and later."""
        self._lookups[cache] = lookups
        for facts in self.behind(cache):
            facts.lookups = lookups

    def forget(self, engine: EngineId) -> None:
        """An engine is gone: what was known of it is not shown any more."""
        self.loads_from(engine, None)
        self._facts.pop(engine, None)

    def forget_cache(self, cache: str) -> None:
        """A cache is gone: nobody waits for its lookups."""
        self._lookups.pop(cache, None)
        for facts in self._behind.get(cache, ()):
            facts.lookups = None

    def samples(self) -> Iterator[Sample]:
        """Yield what the engines' residencies count."""
        for facts in list(self._facts.values()):
            if facts.residency is not None:
                yield from facts.residency.samples()
