"""One LMCache multiprocess server's `/metrics` and `/status`, as release 0.5.6 prints them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.l1 import Cache
from tierscope.testbed.wire.exposition import NO_LABELS, Exposition, Labels

_TAG: Labels = {"l1_tag": "_default"}
_DRAM: Labels = {"backend": "dram", "l1_tag": "_default"}
_ADAPTER: Labels = {"l2_name": "fs"}
_SDK = {"service_name": "unknown_service", "telemetry_sdk_language": "python"}

_Family = tuple[str, str, Sequence[tuple[Labels, float]]]


def lmcache_page(cache: Cache, config: TestbedConfig) -> Exposition:
    """Return a server's page of this moment. Chunks count once: one rank, one object group."""
    page = Exposition(floats=True)
    used_bytes = cache.used_chunks * config.chunk_bytes
    page.family("target_info", "gauge", "Who is asked.", [({"service_instance_id": "lmcache", **_SDK}, 1)])
    for name, help_text, samples in _counters(cache, config):
        page.family(name, "counter", help_text, samples)
    page.family("lmcache_mp_l1_memory_usage_bytes", "gauge", "Bytes in L1.", [(_DRAM, used_bytes)])
    page.family(
        "lmcache_mp_l1_usage_ratio",
        "gauge",
        "Share of L1 in use.",
        [(_DRAM, used_bytes / config.l1_bytes if config.l1_bytes else 0.0)],
    )
    page.family(
        "lmcache_mp_l2_usage_bytes",
        "gauge",
        "Bytes this server wrote to L2.",
        [(_ADAPTER, cache.counters.put * config.chunk_bytes)],
    )
    page.family("lmcache_mp_event_bus_dropped_events_total", "counter", "Events dropped.", [(NO_LABELS, 0)])
    return page


def _counters(cache: Cache, config: TestbedConfig) -> list[_Family]:
    counters = cache.counters
    model = {"cache_salt": "", "model_name": config.model}
    rows: list[tuple[str, str, Labels, float]] = [
        ("l1_eviction_loop_ticks", "Eviction loop rounds.", NO_LABELS, counters.ticks),
        ("l1_eviction_loop_triggered", "Rounds that evicted.", NO_LABELS, counters.rounds),
        ("l1_write_chunks", "Chunks written to L1.", _TAG, counters.written),
        ("l1_read_chunks", "Chunks read from L1.", _TAG, counters.read),
        ("l1_evicted_chunks", "Chunks that left L1.", _TAG, counters.evicted),
        ("l2_prefetch_lookup_requests", "Lookups in L2.", NO_LABELS, counters.lookups),
        ("l2_prefetch_lookup_objects_chunks", "Chunks asked of L2.", NO_LABELS, counters.l2_lookup_chunks),
        ("l2_store_submitted_requests", "Stores begun.", NO_LABELS, counters.stores),
        ("l2_store_submitted_objects_chunks", "Chunks in them.", NO_LABELS, counters.submitted),
        ("l2_store_completed_requests", "Stores done.", _ADAPTER, counters.stores),
        ("l2_store_completed_objects_chunks", "Chunks L2 has.", NO_LABELS, counters.completed),
        ("l2_prefetch_load_submitted_requests", "Loads begun.", NO_LABELS, counters.loads),
        ("l2_prefetch_load_submitted_objects_chunks", "Chunks in them.", NO_LABELS, counters.loaded),
        ("l2_load_completed_requests", "Loads done.", _ADAPTER, counters.loads),
        ("l2_prefetch_load_completed_chunks", "Chunks loaded.", NO_LABELS, counters.loaded),
        ("lookup_requested_tokens", "Tokens looked up.", model, counters.requested_tokens),
        ("lookup_hit_tokens", "Tokens found.", model, counters.hit_l1_tokens + counters.hit_l2_tokens),
        ("lookups_requests", "Lookups.", model, counters.lookups),
        ("lookup_hit_l1_tokens", "Tokens L1 had.", model, counters.hit_l1_tokens),
        ("lookup_hit_l2_tokens", "Tokens L2 added.", model, counters.hit_l2_tokens),
        ("lookup_hit_l1_keys", "Chunks L1 had.", model, counters.hit_l1_chunks),
        ("lookup_hit_l2_keys", "Chunks loaded from L2.", model, counters.hit_l2_chunks),
    ]
    return [
        (f"lmcache_mp_{name}_total", help_text, [(labels, value)]) for name, help_text, labels, value in rows
    ] + _failures(cache, config)


def _failures(cache: Cache, config: TestbedConfig) -> list[_Family]:
    """What L1 had no room for; a failure that never happened has no series."""
    counters = cache.counters
    without_room = {"l1_store": counters.refused, "l2_prefetch": counters.load_refused}
    unloaded = {"l1_oom": counters.load_refused}
    families: list[_Family] = []
    for name, help_text, label, chunks in (
        ("l1_allocation_failure", "Chunks without room.", "during", without_room),
        ("l2_prefetch_failure", "Chunks not loaded.", "reason", unloaded),
    ):
        samples: list[tuple[Labels, float]] = [
            ({label: value, "model_name": config.model}, count) for value, count in chunks.items() if count
        ]
        if samples:
            families.append((f"lmcache_mp_{name}_chunks_total", help_text, samples))
    return families


def lmcache_status(cache: Cache, config: TestbedConfig) -> bytes:
    """Return the server's `/status` of this moment."""
    used_bytes = cache.used_chunks * config.chunk_bytes
    capacity_bytes = int(config.l1_bytes)
    manager = {
        "is_healthy": True,
        "total_object_count": cache.resident_chunks,
        "write_locked_count": 0,
        "read_locked_count": 0,
        "temporary_count": cache.used_chunks - cache.resident_chunks,
        "staging_object_count": 0,
        "staging_bytes": 0,
        "memory_used_bytes": used_bytes,
        "memory_total_bytes": capacity_bytes,
        "memory_configured_bytes": capacity_bytes,
        "capacity_bytes_by_backend": {"dram": capacity_bytes},
        "memory_usage_ratio": used_bytes / capacity_bytes if capacity_bytes else 0.0,
        "write_ttl_seconds": 600,
        "read_ttl_seconds": 300,
    }
    eviction = {
        "is_healthy": True,
        "thread_alive": True,
        "eviction_policy": "LRU",
        "trigger_watermark": config.l1_watermark_ratio,
        "eviction_ratio": config.l1_eviction_ratio,
    }
    status = {
        "is_healthy": True,
        "engine_type": "MPCacheServer",
        "chunk_size": config.tokens_per_chunk,
        "hash_algorithm": "blake3",
        "active_sessions": 0,
        "storage_manager": {
            "is_healthy": True,
            "l1_managers": {"_default": manager},
            "l1_eviction_controllers": {"_default": eviction},
            "l2_adapters": [{"is_healthy": True, "type": "FSL2Adapter", "base_path": "/mnt/curvine/kv"}],
            "num_l2_adapters": 1,
            "l1_usage": [used_bytes, capacity_bytes],
            "l1_capacity_bytes_by_backend": {"dram": capacity_bytes},
            "l1_manager": manager,
            "l1_eviction_controller": eviction,
        },
    }
    return json.dumps(status).encode()
