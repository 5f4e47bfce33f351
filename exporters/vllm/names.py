"""What vLLM's releases call the series we read: one family each, the spellings in the order they are tried.

They are rows of the table of engines' metrics. Where a page has several spellings of one family side by
side, as old releases had while they renamed, the first one is read.
"""

from __future__ import annotations

from tierscope.registry import engine_metrics as rows

PREFIX = rows.VLLM_PREFIX
"""What the names of an engine's own metrics begin with."""

Names = tuple[str, ...]
"""The spellings of one family."""

PROMPT: Names = rows.PROMPT.spellings
BY_SOURCE: Names = rows.BY_SOURCE.spellings
CACHED_BY_SOURCE: Names = rows.CACHED_BY_SOURCE.spellings
QUERIES: Names = rows.QUERIES.spellings
HITS: Names = rows.HITS.spellings
EXTERNAL_QUERIES: Names = rows.EXTERNAL_QUERIES.spellings
EXTERNAL_HITS: Names = rows.EXTERNAL_HITS.spellings

RUNNING: Names = rows.RUNNING.spellings
WAITING: Names = rows.WAITING.spellings
USAGE: Names = rows.USAGE.spellings
CACHE_CONFIG: Names = rows.CACHE_CONFIG.spellings

TTFT: Names = rows.TTFT.spellings
QUEUE: Names = rows.QUEUE.spellings
PROMPT_LENGTH: Names = rows.PROMPT_LENGTH.spellings
COMPUTED_LENGTH: Names = rows.COMPUTED_LENGTH.spellings

CREATED = (f"{PREFIX}prompt_tokens_created",)
PROCESS_START = "process_start_time_seconds"
"""Both are absent where several API servers share one page."""

_NOT_READ = (
    "prompt_tokens_cached", "prompt_tokens_recomputed", "gpu_prefix_cache_hit_rate",
    "cpu_prefix_cache_hit_rate",
)  # fmt: skip
_KNOWN = frozenset(
    (
        *PROMPT, *BY_SOURCE, *CACHED_BY_SOURCE, *QUERIES, *HITS, *EXTERNAL_QUERIES, *EXTERNAL_HITS,
        *(f"{PREFIX}{name}{end}" for name in _NOT_READ for end in ("_total", "", "_total_total")),
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
