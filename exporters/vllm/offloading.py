"""vLLM's own offloading on an engine's page: host memory as L1, the tiers below it as L2.

The engine asks host memory for chunks, and each tier below for what the one above did not have. A chunk is
taken for one block, as it is unless the connector is told otherwise. A request that waits is asked for again,
so misses are of questions, not of requests. `…_usage_perc` is what transfers pin, never how full a tier is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporters.counters import Counters
from exporters.exposition import Exposition
from exporters.vllm.names import PREFIX
from exporters.vllm.readings import EngineKey, engine_key
from tierscope.domain.events import TierActivity, TierTransfer, TransferAction
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB

HOST = "host"
"""Our name of the first tier; the others have the name of their type, such as `fs` and `obj`."""

_BY_TIER = {
    "queries": "kv_offload_tiering_chunk_queries",
    "hits": "kv_offload_tiering_chunk_hits",
    "load_bytes": "kv_offload_tiering_read_bytes",
    "store_bytes": "kv_offload_tiering_write_bytes",
    "dropped_blocks": "kv_offload_tiering_backpressure_blocks_dropped",
}
_OF_HOST = {"load_bytes": "kv_offload_load_bytes", "store_bytes": "kv_offload_store_bytes"}
_OF_HOST_BEFORE_0_24 = {"CPU_to_GPU": "load_bytes", "GPU_to_CPU": "store_bytes"}
_TOTAL_BYTES = "kv_offload_total_bytes"
_PINNED = f"{PREFIX}kv_offload_cpu_cache_usage_perc"
_CACHE_CONFIG = f"{PREFIX}cache_config_info"
_ELSEWHERE = frozenset({"p2p"})
"""Types of tiers that are another engine's memory: neither our L1 nor our L2."""

Place = tuple[str, str]
"""What is counted, and in which tier by our name."""


@dataclass(frozen=True, slots=True)
class OffloadReading:
    """What one engine says of its offloading, cumulative; `host_bytes` is the size of L1."""

    counters: Mapping[Place, int]
    pinned_ratio: float | None = None
    host_bytes: float | None = None

    @property
    def pinned_bytes(self) -> float | None:
        """Bytes of L1 that transfers use now."""
        if self.pinned_ratio is None or self.host_bytes is None:
            return None
        return min(self.pinned_ratio, 1.0) * self.host_bytes


def read_offloading(page: Exposition) -> dict[EngineKey, OffloadReading]:
    """Return what each model and engine of a page says; empty where no engine offloads."""
    counters: dict[EngineKey, dict[Place, int]] = {}
    for key, place, value in (*_below_host(page), *_of_host(page)):
        if 0 <= value < float("inf"):
            of_engine = counters.setdefault(key, {})
            of_engine[place] = of_engine.get(place, 0) + int(value)
    pinned = {engine_key(series): value for series, value in page.named(_PINNED).items()}
    sizes = dict(_host_sizes(page))
    return {
        key: OffloadReading(counters.get(key, {}), pinned.get(key), sizes.get(key[1]))
        for key in counters.keys() | pinned.keys()
    }


def _below_host(page: Exposition) -> Iterator[tuple[EngineKey, Place, float]]:
    """What is counted by tier; of host memory that is what was looked up there."""
    for what, name in _BY_TIER.items():
        for series, value in page.named(f"{PREFIX}{name}_total").items():
            tier = _tier(series.labels.get("tier", ""))
            if tier not in _ELSEWHERE:
                yield engine_key(series), (what, tier), value


def _of_host(page: Exposition) -> Iterator[tuple[EngineKey, Place, float]]:
    """Bytes copied to host memory and from it: up to 0.23 under one name, with their direction as a label."""
    named = {what: page.named(f"{PREFIX}{name}_total") for what, name in _OF_HOST.items()}
    for what, found in named.items():
        for series, value in found.items():
            yield engine_key(series), (what, HOST), value
    if any(named.values()):
        return
    for series, value in page.named(f"{PREFIX}{_TOTAL_BYTES}_total").items():
        direction = _OF_HOST_BEFORE_0_24.get(series.labels.get("transfer_type", ""))
        if direction is not None:
            yield engine_key(series), (direction, HOST), value


def _tier(label: str) -> str:
    """Our name of a tier that vLLM calls `0:primary`, `1:fs`, `2:obj`."""
    place, _, kind = label.partition(":")
    return HOST if place == "0" else kind or label


def _host_sizes(page: Exposition) -> Iterator[tuple[str, float]]:
    """Bytes of host memory by engine label, where the engine was given them as `--kv-offloading-size`."""
    for series in page.named(_CACHE_CONFIG):
        try:
            size_gib = float(series.labels.get("kv_offloading_size", ""))
        except ValueError:  # vLLM prints None as text
            continue
        if 0 < size_gib < float("inf"):
            yield series.labels.get("engine", "0"), size_gib * GIB


@dataclass(slots=True)
class OffloadCounters:
    """Turns the offloading counters of one model on one engine into what its L1 and L2 did, both its own.

    `from_zero` says that they began after we did, so that the first reading counts too.
    """

    holder: str
    from_zero: bool = False
    _counters: Counters[Place] = field(init=False)

    def __post_init__(self) -> None:
        self._counters = Counters(from_zero=self.from_zero)

    def advance(
        self,
        reading: OffloadReading,
        block_tokens: int | None,
        since_unix_seconds: float,
        at_unix_seconds: float,
    ) -> Iterator[TierActivity | TierTransfer]:
        """Take a reading; yield what grew since the last one."""
        growth = self._counters.advance(reading.counters)
        by = {} if growth is None else {place: count for place, count in growth.by.items() if count}
        if block_tokens:
            yield from self._lookups(by, block_tokens, since_unix_seconds, at_unix_seconds)
        for (what, name), count in by.items():
            tier = Tier.L1 if name == HOST else Tier.L2
            action = TransferAction.LOAD if what == "load_bytes" else TransferAction.STORE
            adapter = None if name == HOST else name
            if what in _OF_HOST:
                yield TierTransfer(
                    tier, self.holder, action, at_unix_seconds, adapter=adapter, size_bytes=count
                )
            elif what == "dropped_blocks":
                yield TierTransfer(
                    tier,
                    self.holder,
                    TransferAction.STORE,
                    at_unix_seconds,
                    adapter=adapter,
                    failed_blocks=count,
                    reason="backpressure",
                )

    def _lookups(
        self, by: Mapping[Place, int], block_tokens: int, since: float, until: float
    ) -> Iterator[TierActivity]:
        below = {name for _, name in by if name != HOST}
        for tier, names in ((Tier.L1, {HOST}), (Tier.L2, below)):
            hits = sum(by.get(("hits", name), 0) for name in names)
            asked = max((by.get(("queries", name), 0) for name in names), default=0)
            if asked or hits:
                yield TierActivity(
                    tier,
                    self.holder,
                    since,
                    until,
                    lookup_hit_tokens=hits * block_tokens,
                    lookup_miss_tokens=max(0, asked - hits) * block_tokens,
                )
