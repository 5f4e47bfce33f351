"""Metrics that engines and cache servers publish themselves, as far as we read or show them.

One row a family, with every name that releases gave it, newest first: vLLM 0.8 to 0.33, LMCache 0.5. A
counter `name` is exposed as `name_total`; a client that writes `name`, or a relay that writes
`name_total_total`, means the same. `labels` are those some release has; a scrape adds its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.registry.types import Kind


@dataclass(frozen=True, slots=True)
class EngineMetric:
    """A family of metrics that is not ours; `answers` says why anyone would look at it."""

    names: tuple[str, ...]
    kind: Kind
    labels: tuple[str, ...]
    answers: str

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name its samples may have, the likeliest first; a histogram's without `_bucket`."""
        if self.kind is not Kind.COUNTER:
            return self.names
        return tuple(f"{name}{end}" for name in self.names for end in ("_total", "", "_total_total"))


VLLM_PREFIX = "vllm:"
LMCACHE_SERVER_PREFIX = "lmcache_mp_"
LMCACHE_INSIDE_PREFIX = "lmcache:"
"""What the names of an engine's, a cache server's and an in-process cache's own metrics begin with."""

_ENGINE = ("model_name", "engine")
_WORKER = ("model_name", "served_model_name", "role", "worker_id")


def _vllm(kind: Kind, answers: str, *names: str, labels: tuple[str, ...] = ()) -> EngineMetric:
    return EngineMetric(tuple(VLLM_PREFIX + name for name in names), kind, (*_ENGINE, *labels), answers)


def _server(kind: Kind, answers: str, name: str, *labels: str) -> EngineMetric:
    return EngineMetric((LMCACHE_SERVER_PREFIX + name,), kind, labels, answers)


def _inside(kind: Kind, answers: str, name: str) -> EngineMetric:
    return EngineMetric((LMCACHE_INSIDE_PREFIX + name,), kind, _WORKER, answers)


PROMPT = _vllm(Kind.COUNTER, "How many prompt tokens do engines prefill?", "prompt_tokens")
BY_SOURCE = _vllm(
    Kind.COUNTER, "Which prompt tokens were computed, which cached, which loaded?", "prompt_tokens_by_source",
    labels=("source",),
)  # fmt: skip
"""Split of the prompt tokens that reached their first token; since 0.16."""
CACHED_BY_SOURCE = _vllm(
    Kind.COUNTER, "In which tier was what was cached?", "prompt_tokens_cached_by_source", labels=("source",)
)
"""Tier of the hit tokens, at admission; since 0.32."""
QUERIES = _vllm(Kind.COUNTER, "What was looked up in L0?", "prefix_cache_queries", "gpu_prefix_cache_queries")
HITS = _vllm(Kind.COUNTER, "What did L0 have?", "prefix_cache_hits", "gpu_prefix_cache_hits")
EXTERNAL_QUERIES = _vllm(Kind.COUNTER, "What was asked of the connector?", "external_prefix_cache_queries")
"""Tokens asked of the KV connector; since 0.11, and in no release always what L0 left over."""
EXTERNAL_HITS = _vllm(Kind.COUNTER, "What did the connector offer?", "external_prefix_cache_hits")
PREEMPTIONS = _vllm(Kind.COUNTER, "Is L0 too small for what runs?", "num_preemptions")
RUNNING = _vllm(Kind.GAUGE, "How many requests run?", "num_requests_running")
WAITING = _vllm(Kind.GAUGE, "How many requests wait for a slot?", "num_requests_waiting")
USAGE = _vllm(
    Kind.GAUGE, "How much of L0 do running requests use?", "kv_cache_usage_perc", "gpu_cache_usage_perc"
)
"""Share of the blocks that running requests use, from 0 to 1; what is cached beyond them counts as free."""
CACHE_CONFIG = _vllm(Kind.GAUGE, "How large is L0?", "cache_config_info")
TTFT = _vllm(Kind.HISTOGRAM, "How long do first tokens take?", "time_to_first_token_seconds")
QUEUE = _vllm(Kind.HISTOGRAM, "How much of that do they queue?", "request_queue_time_seconds")
PREFILL = _vllm(Kind.HISTOGRAM, "How much of that is computing?", "request_prefill_time_seconds")
PROMPT_LENGTH = _vllm(Kind.HISTOGRAM, "How long are prompts?", "request_prompt_tokens")
"""Prompt tokens of each finished request."""
COMPUTED_LENGTH = _vllm(
    Kind.HISTOGRAM, "How much of a prompt had to be computed?", "request_prefill_kv_computed_tokens"
)
"""Prompt tokens that each finished request had to compute; since 0.14."""

VLLM: tuple[EngineMetric, ...] = (
    PROMPT, BY_SOURCE, CACHED_BY_SOURCE, QUERIES, HITS, EXTERNAL_QUERIES, EXTERNAL_HITS, PREEMPTIONS, RUNNING,
    WAITING, USAGE, CACHE_CONFIG, TTFT, QUEUE, PREFILL, PROMPT_LENGTH, COMPUTED_LENGTH,
)  # fmt: skip

_LOOKUP = ("model_name", "cache_salt")
SERVER_REQUESTED = _server(
    Kind.COUNTER, "What was looked up in the cache server?", "lookup_requested_tokens", *_LOOKUP
)
SERVER_HIT_L1 = _server(Kind.COUNTER, "What did L1 have?", "lookup_hit_l1_tokens", *_LOOKUP)
SERVER_HIT_L2 = _server(Kind.COUNTER, "What did L2 have beyond L1?", "lookup_hit_l2_tokens", *_LOOKUP)
_L1 = ("l1_tag", "cache_salt")
SERVER_L1_WRITTEN = _server(Kind.COUNTER, "What is written into L1?", "l1_write_chunks", *_L1)
SERVER_L1_EVICTED = _server(Kind.COUNTER, "What leaves L1?", "l1_evicted_chunks", *_L1)
SERVER_L1_FAILED = _server(
    Kind.COUNTER, "What does L1 have no room for?", "l1_allocation_failure_chunks", "during", "model_name"
)
SERVER_L2_LOADED = _server(Kind.COUNTER, "What comes up from L2?", "l2_prefetch_load_completed_chunks")
SERVER_L2_STORED = _server(
    Kind.COUNTER, "What is written into L2?", "l2_store_completed_objects_chunks", "cache_salt"
)
SERVER_L2_EVICTED = _server(Kind.COUNTER, "What does LMCache remove from L2?", "l2_evicted_objects_chunks")
SERVER_L1_USAGE = _server(Kind.GAUGE, "How full is L1?", "l1_usage_ratio", "l1_tag", "backend")
SERVER_DROPPED = _server(
    Kind.COUNTER, "Can the server's own counters be trusted?", "event_bus_dropped_events"
)

LMCACHE_SERVER: tuple[EngineMetric, ...] = (
    SERVER_REQUESTED, SERVER_HIT_L1, SERVER_HIT_L2, SERVER_L1_WRITTEN, SERVER_L1_EVICTED, SERVER_L1_FAILED,
    SERVER_L2_LOADED, SERVER_L2_STORED, SERVER_L2_EVICTED, SERVER_L1_USAGE, SERVER_DROPPED,
)  # fmt: skip

INSIDE_REQUESTED = _inside(Kind.COUNTER, "What was looked up in the engine's LMCache?", "num_lookup_tokens")
INSIDE_FOUND = _inside(Kind.COUNTER, "What did the engine's LMCache have?", "num_lookup_hits")
INSIDE_RETRIEVE_ASKED = _inside(Kind.COUNTER, "What was to be retrieved?", "num_requested_tokens")
INSIDE_RETRIEVED = _inside(Kind.COUNTER, "What was retrieved?", "num_hit_tokens")
INSIDE_STORED = _inside(Kind.COUNTER, "What was stored?", "num_stored_tokens")
INSIDE_PROMPT = _inside(Kind.COUNTER, "What did prompts hold that were looked up?", "num_prompt_tokens")
INSIDE_L1_EVICTED = _inside(Kind.COUNTER, "What leaves L1?", "local_cpu_evict_keys_count")
INSIDE_L1_REFUSED = _inside(Kind.COUNTER, "What finds no room in L1?", "local_cpu_evict_failed_count")
INSIDE_L2_READS = _inside(Kind.COUNTER, "How often is L2 read?", "num_remote_read_requests")
INSIDE_L2_READ_BYTES = _inside(Kind.COUNTER, "How much is read from L2?", "num_remote_read_bytes")
INSIDE_L2_WRITTEN = _inside(Kind.COUNTER, "How often is L2 written to?", "num_remote_write_requests")
INSIDE_L2_WRITTEN_BYTES = _inside(Kind.COUNTER, "How much is written to L2?", "num_remote_write_bytes")
INSIDE_L1_BYTES = _inside(Kind.GAUGE, "How much does L1 hold?", "local_cache_usage")
INSIDE_L1_CHUNKS = _inside(Kind.GAUGE, "How many chunks does L1 hold?", "local_cpu_hot_cache_count")
INSIDE_L1_PINNED = _inside(Kind.GAUGE, "How many chunks are in use?", "pinned_memory_objs_count")
INSIDE_DISK_BYTES = _inside(Kind.GAUGE, "How much does the worker's disk hold?", "local_storage_usage")
INSIDE_L2_BYTES = _inside(Kind.GAUGE, "How much does the worker believe it wrote?", "remote_cache_usage")
INSIDE_RETRIEVE_RATIO = _inside(Kind.GAUGE, "What does LMCache call its hit rate?", "retrieve_hit_rate")
INSIDE_L2_READ_TIME = _inside(Kind.HISTOGRAM, "How long does a read from L2 take?", "remote_time_to_get")
INSIDE_LIFESPAN = _inside(Kind.HISTOGRAM, "How long does a chunk stay?", "request_cache_lifespan")

LMCACHE_INSIDE: tuple[EngineMetric, ...] = (
    INSIDE_REQUESTED, INSIDE_FOUND, INSIDE_RETRIEVE_ASKED, INSIDE_RETRIEVED, INSIDE_STORED, INSIDE_PROMPT,
    INSIDE_L1_EVICTED, INSIDE_L1_REFUSED, INSIDE_L2_READS, INSIDE_L2_READ_BYTES, INSIDE_L2_WRITTEN,
    INSIDE_L2_WRITTEN_BYTES, INSIDE_L1_BYTES, INSIDE_L1_CHUNKS, INSIDE_L1_PINNED, INSIDE_DISK_BYTES,
    INSIDE_L2_BYTES, INSIDE_RETRIEVE_RATIO, INSIDE_L2_READ_TIME, INSIDE_LIFESPAN,
)  # fmt: skip

ENGINE_METRICS: tuple[EngineMetric, ...] = (*VLLM, *LMCACHE_SERVER, *LMCACHE_INSIDE)
"""Every row."""
