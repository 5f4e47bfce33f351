"""Who names equal prompts differently over all nodes, from the records of every feed.

An exporter compares the cache servers of its own node. Replicas on different nodes share a pool all the same.
Only a record that a cache server's lookup was joined to has both names: the engine's and the server's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from collectors.buffer import FeedItem
from collectors.complaints import Complaints
from tierscope.analytics.chunk_names import ChunkNames
from tierscope.domain.batch import FeedBatch
from tierscope.domain.errors import BadInput
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.requests import RequestRecord
from tierscope.domain.severity import Severity
from tierscope.registry.metrics import FINDING
from tierscope.registry.types import Sample

FEWEST_PROMPTS = 3
"""Common prompts that engines are judged by at the least: a LoRA adapter gives other names, too."""


class NameSuspect(StrEnum):
    """What is wrong with names over nodes."""

    CACHES = "hash_seed_mismatch"
    """Cache servers of any nodes name the same prompts differently: none finds what another stored."""
    ENGINES = "engine_hash_seed_mismatch"
    """Engines name the same prompts differently: a router that looks blocks up finds nothing in common."""


@dataclass(slots=True)
class _Names:
    """What the servers and the engines of one endpoint's model call their prompts."""

    servers: ChunkNames = field(default_factory=ChunkNames)
    engines: ChunkNames = field(default_factory=ChunkNames)


class NameWatcher:
    """Compares names endpoint by endpoint as records come in. Thread-safe."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self._lock = threading.Lock()
        self._names: dict[tuple[str, str, str], _Names] = {}

    def take(self, items: Sequence[FeedItem]) -> None:
        """Take what feeds brought."""
        for item in items:
            if isinstance(item, FeedBatch):
                for entry in item.entries:
                    if isinstance(entry, RequestRecord) and entry.lookup is not None:
                        self._compare(entry)

    def samples(self) -> Iterator[Sample]:
        """Yield 1 for every server and engine that agrees with another one on no prompt at all."""
        with self._lock:
            known = list(self._names.values())
            servers = {who for names in known for pair in names.servers.pairs() for who in pair}
            engines = {
                who
                for names in known
                for pair, prompts in names.engines.pairs().items()
                if prompts >= FEWEST_PROMPTS
                for who in pair
            }
        for server in sorted(servers):
            source = SourceId(SourceKind.LMCACHE_RECORDS, server)
            yield Sample(FINDING, (str(source), NameSuspect.CACHES, Severity.CRITICAL), 1)
        for engine in sorted(engines):
            source = SourceId(SourceKind.VLLM_HOOK, engine)
            yield Sample(FINDING, (str(source), NameSuspect.ENGINES, Severity.WARNING), 1)

    def _compare(self, record: RequestRecord) -> None:
        """Note what engine and server call the first chunk's tokens."""
        lookup, size = record.lookup, record.chunk_tokens
        if lookup is None or lookup.first_chunk_hash is None or not size or size % record.block_tokens:
            return
        blocks = size // record.block_tokens
        if not 0 < blocks <= len(record.block_hashes):
            return
        prefix, chunk = record.block_hashes[blocks - 1], lookup.first_chunk_hash
        engine = record.engine
        with self._lock:
            names = self._names.setdefault((engine.namespace, engine.endpoint, record.model), _Names())
            names.servers.told(lookup.server, prefix, chunk)
            if record.salt_hash is None:  # a salt is in the engine's names, and not in the server's
                names.engines.told(str(engine), chunk, prefix)
            strangers = names.servers.strangers(lookup.server)
        if strangers:
            self._say(lookup.server, strangers)

    def _say(self, server: str, strangers: dict[str, int]) -> None:
        others = ", ".join(f"{other} ({prompts} prompts)" for other, prompts in sorted(strangers.items()))
        error = BadInput(
            f"{server} names the same prompts otherwise than {others}; what one stores in the shared pool "
            "the other never finds",
            where=server,
            fix="give all servers the same --hash-algorithm, best blake3, which needs no seed; builtin needs "
            "one PYTHONHASHSEED everywhere",
        )
        self._complaints.say(f"names of {server}", error)
