"""Who names equal prompts differently over all nodes, from the records of every feed.

An exporter compares the cache servers of its own node. Replicas on different nodes share a pool all the same.
Only a record that a cache server's lookup was joined to has both names: the engine's and the server's. Advice
compares those of its window in the same way, out of the store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from collectors.buffer import FeedItem
from collectors.complaints import Complaints
from tierscope.analytics.chunk_names import Pair, PromptNames
from tierscope.domain.batch import FeedBatch
from tierscope.domain.errors import BadInput
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.names import Beginning, beginning_of
from tierscope.domain.requests import RequestRecord
from tierscope.domain.severity import Severity
from tierscope.registry.metrics import FINDING
from tierscope.registry.types import Sample


class NameSuspect(StrEnum):
    """What is wrong with names over nodes."""

    CACHES = "hash_seed_mismatch"
    """Cache servers of any nodes name the same prompts differently: none finds what another stored."""
    ENGINES = "engine_hash_seed_mismatch"
    """Engines name the same prompts differently: a router that looks blocks up finds nothing in common."""


FIXES = {
    NameSuspect.CACHES: "give all servers the same --hash-algorithm, best blake3, which needs no seed; "
    "builtin needs one PYTHONHASHSEED everywhere",
    NameSuspect.ENGINES: "give all engines the same --prefix-caching-hash-algo and PYTHONHASHSEED",
}


class NameWatcher:
    """Compares names endpoint by endpoint as records come in. Thread-safe."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self._lock = threading.Lock()
        self._names: dict[tuple[str, str], PromptNames] = {}

    def take(self, items: Sequence[FeedItem]) -> None:
        """Take what feeds brought."""
        for item in items:
            if isinstance(item, FeedBatch):
                for entry in item.entries:
                    beginning = beginning_of(entry) if isinstance(entry, RequestRecord) else None
                    if beginning is not None:
                        self._compare(beginning)

    def samples(self) -> Iterator[Sample]:
        """Yield 1 for every server and engine that agrees with another one on no prompt at all."""
        with self._lock:
            known = list(self._names.values())
            servers = _all(names.cache_pairs() for names in known)
            engines = _all(names.engine_pairs() for names in known)
        for server in sorted(servers):
            source = SourceId(SourceKind.LMCACHE_RECORDS, server)
            yield Sample(FINDING, (str(source), NameSuspect.CACHES, Severity.CRITICAL), 1)
        for engine in sorted(engines):
            source = SourceId(SourceKind.VLLM_HOOK, engine)
            yield Sample(FINDING, (str(source), NameSuspect.ENGINES, Severity.WARNING), 1)

    def _compare(self, beginning: Beginning) -> None:
        engine = beginning.engine
        with self._lock:
            names = self._names.setdefault((engine.namespace, engine.endpoint), PromptNames())
            if not names.take(beginning):
                return
            servers, engines = names.strangers(beginning)
        self._say(beginning.server, servers, NameSuspect.CACHES)
        self._say(str(engine), engines, NameSuspect.ENGINES)

    def _say(self, who: str, strangers: Mapping[str, int], suspect: NameSuspect) -> None:
        if not strangers:
            return
        others = ", ".join(f"{other} ({prompts} prompts)" for other, prompts in sorted(strangers.items()))
        error = BadInput(
            f"{who} names the same prompts otherwise than {others}; what one stores the other never finds",
            where=who,
            fix=FIXES[suspect],
        )
        self._complaints.say(f"names of {who}", error)


def _all(pairs: Iterable[Mapping[Pair, int]]) -> set[str]:
    return {who for found in pairs for pair in found for who in pair}
