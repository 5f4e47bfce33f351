"""What vLLM's releases from 0.8 to 0.33 call the series we read: one family each, newest spelling first.

A counter is exposed as `name_total`; a client that writes `name`, or a relay that writes `name_total_total`,
means the same. Where a page has several spellings of one family side by side, as old releases had while
they renamed, the first one is read.
"""

from __future__ import annotations

PREFIX = "vllm:"
"""What the names of an engine's own metrics begin with."""

Names = tuple[str, ...]
"""The spellings of one family."""


def _counter(*names: str) -> Names:
    return tuple(f"{PREFIX}{name}{end}" for name in names for end in ("_total", "", "_total_total"))


def _plain(*names: str) -> Names:
    return tuple(f"{PREFIX}{name}" for name in names)


PROMPT = _counter("prompt_tokens")
BY_SOURCE = _counter("prompt_tokens_by_source")
"""Split of the prompt tokens that reached their first token; since 0.16."""
CACHED_BY_SOURCE = _counter("prompt_tokens_cached_by_source")
"""Tier of the hit tokens, at admission; since 0.32."""
QUERIES = _counter("prefix_cache_queries", "gpu_prefix_cache_queries")
HITS = _counter("prefix_cache_hits", "gpu_prefix_cache_hits")
EXTERNAL_QUERIES = _counter("external_prefix_cache_queries")
"""Tokens asked of the KV connector; since 0.11, and in no release always what L0 left over."""
EXTERNAL_HITS = _counter("external_prefix_cache_hits")

RUNNING = _plain("num_requests_running")
WAITING = _plain("num_requests_waiting")
USAGE = _plain("kv_cache_usage_perc", "gpu_cache_usage_perc")
"""Share of the blocks that running requests use, from 0 to 1; what is cached beyond them counts as free."""
CACHE_CONFIG = _plain("cache_config_info")

TTFT = _plain("time_to_first_token_seconds")
QUEUE = _plain("request_queue_time_seconds")
PROMPT_LENGTH = _plain("request_prompt_tokens")
"""Prompt tokens of each finished request."""
COMPUTED_LENGTH = _plain("request_prefill_kv_computed_tokens")
"""Prompt tokens that each finished request had to compute; since 0.14."""

CREATED = (f"{PREFIX}prompt_tokens_created",)
PROCESS_START = "process_start_time_seconds"
"""Both are absent where several API servers share one page."""

_KNOWN = frozenset(
    _counter(
        "prompt_tokens", "prompt_tokens_by_source", "prompt_tokens_cached", "prompt_tokens_cached_by_source",
        "prompt_tokens_recomputed", "prefix_cache_queries", "prefix_cache_hits", "gpu_prefix_cache_queries",
        "gpu_prefix_cache_hits", "external_prefix_cache_queries", "external_prefix_cache_hits",
        "gpu_prefix_cache_hit_rate", "cpu_prefix_cache_hit_rate",
    )
)  # fmt: skip
"""Every name of a release we know that counts prompt tokens or what a prefix cache did, read or not."""

_PARTS = ("_created", "_bucket", "_sum", "_count")
_TELLING = ("prompt_tokens", "prefix_cache")


def is_unknown(name: str) -> bool:
    """Whether a name counts prompt tokens or cache lookups, and no release we know has it."""
    if not name.startswith(PREFIX) or not any(part in name for part in _TELLING) or name in _KNOWN:
        return False
    return not name.endswith(_PARTS) and not name.startswith(PROMPT_LENGTH)
