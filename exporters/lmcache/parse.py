"""An LMCache multiprocess server's pages as what L1 and L2 hold and did.

Known to lie, and what is used instead: `l1_read` counts write-backs to L2 too (lookups say what was hit),
`l1_evicted` mixes three reasons (so the reason is unknown), `l2_usage_bytes` counts this server's own
writes since its start (the pool says what is used), lookups count prefixes that the engine held in L0
(they are what a tier could serve, not what it served).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from exporters.counters import Counters
from exporters.documents import read_document
from exporters.exposition import Exposition
from tierscope.domain.events import TierActivity, TierSample
from tierscope.domain.tiers import Tier
from tierscope.registry import engine_metrics as rows
from tierscope.registry.engine_metrics import EngineMetric

_COUNTERS = {
    "requested": rows.SERVER_REQUESTED,
    "hit_l1": rows.SERVER_HIT_L1,
    "hit_l2": rows.SERVER_HIT_L2,
    "l1_written": rows.SERVER_L1_WRITTEN,
    "l1_evicted": rows.SERVER_L1_EVICTED,
    "l1_failed": rows.SERVER_L1_FAILED,
    "l2_loaded": rows.SERVER_L2_LOADED,
    "l2_stored": rows.SERVER_L2_STORED,
    "l2_evicted": rows.SERVER_L2_EVICTED,
}
"""Our names of the counters read, summed over models, salts and tags."""


class _L1Manager(msgspec.Struct):
    memory_used_bytes: int
    memory_total_bytes: int
    total_object_count: int | None = None


class _StorageManager(msgspec.Struct):
    l1_manager: _L1Manager | None = None
    l1_managers: dict[str, _L1Manager] = msgspec.field(default_factory=dict)


class _KvEvents(msgspec.Struct):
    incarnation: int | None = None


class _Status(msgspec.Struct):
    storage_manager: _StorageManager
    chunk_size: int | None = None
    kv_events: _KvEvents | None = None


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What a server says of its L1: bytes, and chunks of `chunk_tokens` tokens.

    `incarnation` is another number after each start of the server; None where it does not say.
    """

    capacity_bytes: int
    used_bytes: int
    chunks: int | None
    chunk_tokens: int | None
    incarnation: int | None = None

    def sample(self, holder: str, at_unix_seconds: float) -> TierSample:
        """Return the reading of L1; `holder` is the server's name."""
        return TierSample(
            tier=Tier.L1,
            holder=holder,
            at_unix_seconds=at_unix_seconds,
            capacity_bytes=self.capacity_bytes,
            used_bytes=self.used_bytes,
            used_blocks=self.chunks,
            block_tokens=self.chunk_tokens,
        )


def parse_status(body: bytes, *, where: str) -> ServerStatus:
    """Read `/status`, summed over the server's L1 managers; raises `SourceUnreadable`."""
    status = read_document(body, _Status, where=where)
    storage = status.storage_manager
    managers = list(storage.l1_managers.values())
    if not managers and storage.l1_manager is not None:
        managers = [storage.l1_manager]
    chunks = [manager.total_object_count for manager in managers]
    return ServerStatus(
        capacity_bytes=sum(manager.memory_total_bytes for manager in managers),
        used_bytes=sum(manager.memory_used_bytes for manager in managers),
        chunks=None if None in chunks else sum(count for count in chunks if count is not None),
        chunk_tokens=status.chunk_size,
        incarnation=None if status.kv_events is None else status.kv_events.incarnation,
    )


def parse_counters(page: Exposition) -> dict[str, int]:
    """Return the cumulative counters by our names; one that the page does not have is absent."""
    totals = {name: _total(page, metric) for name, metric in _COUNTERS.items()}
    return {name: int(total) for name, total in totals.items() if total is not None and total >= 0}


def _total(page: Exposition, metric: EngineMetric) -> float | None:
    """A counter under the first of its spellings that the page has."""
    found = (page.total(name) for name in metric.spellings)
    return next((total for total in found if total is not None), None)


@dataclass(slots=True)
class ServerActivity:
    """Turns the counters of one server into what its tiers did between two readings.

    `server` holds L1, `pool` L2. Each read by one thread.
    """

    server: str
    pool: str
    _counters: Counters[str] = field(default_factory=Counters)
    _at_unix_seconds: float = 0.0
    _stores_owed: int = 0
    """Chunks loaded from L2 whose write into L1 the counters have not told yet; see `_stored`."""

    def advance(
        self, counters: Mapping[str, int], incarnation: int | None, at_unix_seconds: float
    ) -> tuple[tuple[TierActivity, ...], bool]:
        """Take a reading; return the tiers' activities since the last one, and whether the server restarted.

        The first reading has none: everything later is measured against it.
        """
        growth = self._counters.advance(counters, incarnation)
        since, self._at_unix_seconds = self._at_unix_seconds, at_unix_seconds
        if growth is None:
            return (), False
        if growth.restarted:
            self._stores_owed = 0
        by = growth.by
        l1 = TierActivity(
            tier=Tier.L1,
            holder=self.server,
            since_unix_seconds=since,
            at_unix_seconds=at_unix_seconds,
            lookup_hit_tokens=by.get("hit_l1"),
            lookup_miss_tokens=_difference(by, "requested", "hit_l1"),
            stored_blocks=self._stored(by),
            evicted_blocks=by.get("l1_evicted"),
            failed_blocks=by.get("l1_failed", 0) if "l1_written" in by else None,
        )
        l2 = TierActivity(
            tier=Tier.L2,
            holder=self.pool,
            since_unix_seconds=since,
            at_unix_seconds=at_unix_seconds,
            lookup_hit_tokens=by.get("hit_l2"),
            lookup_miss_tokens=_difference(by, "requested", "hit_l1", "hit_l2"),
            stored_blocks=by.get("l2_stored"),
            evicted_blocks=by.get("l2_evicted"),
        )
        return (l1, l2), growth.restarted

    def _stored(self, by: Mapping[str, int]) -> int | None:
        """Chunks that stores wrote into L1: all that was written but for what came up from L2."""
        if "l1_written" not in by:
            return None
        stored = by["l1_written"] - by.get("l2_loaded", 0) - self._stores_owed
        self._stores_owed = max(0, -stored)
        return max(0, stored)


def _difference(by: Mapping[str, int], whole: str, *parts: str) -> int | None:
    """The whole without its parts, 0 where a part ran ahead of it on the page; None without them."""
    if whole not in by:
        return None
    return max(0, by[whole] - sum(by.get(part, 0) for part in parts))
