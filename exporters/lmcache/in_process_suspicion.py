"""Numbers of LMCache inside an engine that lie: how each shows on a page, and what is used instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from exporters.lmcache.in_process import InProcessReading
from exporters.oddities import Finding
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity


class LmcacheSuspect(StrEnum):
    """What is wrong with the series of LMCache inside an engine."""

    RETRIEVE_RATIO = "retrieve_hit_rate_stays_at_one"
    """`retrieve_hit_rate` is of what lookups found already, so it is 1 however much was missed."""
    RETRIEVED_STUCK = "retrieved_tokens_stay_at_zero"
    """No retrieved tokens are counted although lookups hit; what lookups found stands in for them."""
    STORED_TOKENS = "stored_tokens_count_what_was_asked"
    """`num_stored_tokens` has the tails that fill no chunk, and what there was no room for."""
    PROMPT_TOKENS = "lmcache_prompt_tokens_are_not_all_traffic"
    """`num_prompt_tokens` is of requests that load alone: it is no denominator of a hit ratio."""
    L2_USAGE = "remote_usage_stays_at_zero"
    """`remote_cache_usage` is never set; the pool or a scan of it tells how full L2 is."""
    L1_CHUNKS = "resident_chunks_stay_at_zero"
    """L1 is said to hold no chunks although it holds bytes: several processes share the page."""
    L2_READ_SECONDS = "remote_time_to_get_stays_empty"
    """No single read of this L2 is timed; the storage hook does it, chunk by chunk."""
    LIFESPAN = "lifespans_begin_at_the_first_sight"
    """`request_cache_lifespan` counts from the first sight of a chunk ever, not from its last use."""
    LOCAL_DISK = "local_disk_tells_only_its_bytes"
    """A worker's own disk counts no reads, hits or evictions: its use is known, not what it served."""
    CHUNK_TOKENS = "chunk_size_is_not_known"
    """Chunks were read from L2, but not how many tokens one has: L1 and L2 hits are not told apart."""


def judge_in_process(reading: InProcessReading, *, where: str) -> Iterator[Finding]:
    """Yield what lies on the pages of one engine's workers; `where` names them, for messages."""
    for suspect, severity, shows, fix in _RULES:
        what = shows(reading)
        if what is not None:
            yield Finding(suspect, severity, BadInput(what, where=where, fix=fix))


def _retrieve_ratio(reading: InProcessReading) -> str | None:
    requested, found = reading.most("requested"), reading.most("found")
    ratio = reading.largest("retrieve_ratio")
    if requested is None or found is None or ratio is None or ratio < 0.999 or found >= requested:
        return None
    return f"retrieve_hit_rate is {ratio:g}, but of {requested} tokens looked up only {found} were found"


def _retrieved_stuck(reading: InProcessReading) -> str | None:
    found = reading.most("found")
    if not found or reading.most("retrieved") != 0:
        return None
    return f"num_hit_tokens is 0, but lookups found {found} tokens"


def _stored_tokens(reading: InProcessReading) -> str | None:
    stored, chunks, size = reading.most("stored_tokens"), reading.most("l2_written"), reading.chunk_tokens
    refused = reading.most("l1_refused")
    if stored and refused:
        return f"num_stored_tokens counts {stored}, but L1 had no room {refused} times and told nobody"
    if not stored or not size or not (stored % size or (chunks and stored > chunks * size)):
        return None
    kept = f"{chunks} chunks of {size} were written" if chunks else f"a chunk has {size}"
    return f"num_stored_tokens counts {stored} tokens, but {kept}"


def _prompt_tokens(reading: InProcessReading) -> str | None:
    prompts, requested = reading.most("prompt_tokens"), reading.most("requested")
    if prompts is None or not requested or prompts >= requested:
        return None
    return f"num_prompt_tokens counts {prompts} tokens where {requested} were looked up"


def _l2_usage(reading: InProcessReading) -> str | None:
    written = reading.most("l2_written")
    if not written or reading.sum("l2_bytes") != 0:
        return None
    return f"remote_cache_usage is 0 after {written} chunks were written"


def _l1_chunks(reading: InProcessReading) -> str | None:
    used = reading.sum("l1_bytes")
    if not used or reading.largest("l1_chunks") != 0:
        return None
    return f"local_cpu_hot_cache_count is 0, but L1 holds {used:.0f} bytes"


def _l2_read_seconds(reading: InProcessReading) -> str | None:
    reads = reading.most("l2_reads")
    if not reads or reading.largest("l2_batch_reads"):
        return None
    return f"remote_time_to_get is empty after {reads} reads"


def _lifespan(reading: InProcessReading) -> str | None:
    spans = reading.largest("lifespans")
    return f"request_cache_lifespan has {spans:.0f} values" if spans else None


def _local_disk(reading: InProcessReading) -> str | None:
    used = reading.sum("disk_bytes")
    return f"local_storage_usage is {used:.0f} bytes, and nothing tells what they served" if used else None


def _chunk_tokens(reading: InProcessReading) -> str | None:
    reads = reading.most("l2_reads")
    return f"{reads} reads from L2, of chunks of unknown size" if reads and not reading.chunk_tokens else None


_Rule = tuple[LmcacheSuspect, Severity, Callable[[InProcessReading], str | None], str]
_BY_CHUNK = (
    "it is not used; remote_time_to_get_sync has one value for all chunks of a request, so use the storage "
    "hook of tierscope-probe"
)
_DISK = "its bytes are shown as L2; where its tokens are to be told, use a storage connector on a directory"
_SIZE = "set `chunk_tokens` to LMCACHE_CHUNK_SIZE (256 unless it is set), or give its own pages as `urls`"
_RULES: tuple[_Rule, ...] = (
    (
        LmcacheSuspect.RETRIEVE_RATIO,
        Severity.WARNING,
        _retrieve_ratio,
        "it is not used; what lookups found of what was looked up is the hit ratio",
    ),
    (
        LmcacheSuspect.RETRIEVED_STUCK,
        Severity.WARNING,
        _retrieved_stuck,
        "num_lookup_hits is used instead, in which prefixes that L0 held count too",
    ),
    (LmcacheSuspect.STORED_TOKENS, Severity.INFO, _stored_tokens, "it is not used; chunks written to L2 are"),
    (
        LmcacheSuspect.PROMPT_TOKENS,
        Severity.INFO,
        _prompt_tokens,
        "it is not used; the engine's own prompt tokens are all traffic",
    ),
    (LmcacheSuspect.L2_USAGE, Severity.INFO, _l2_usage, "it is not used; read the pool or scan its mount"),
    (
        LmcacheSuspect.L1_CHUNKS,
        Severity.INFO,
        _l1_chunks,
        "it is not used; give LMCache's own pages as `urls`",
    ),
    (LmcacheSuspect.L2_READ_SECONDS, Severity.INFO, _l2_read_seconds, _BY_CHUNK),
    (
        LmcacheSuspect.LIFESPAN,
        Severity.INFO,
        _lifespan,
        "it is not used; reuse is told by the hook's records",
    ),
    (LmcacheSuspect.LOCAL_DISK, Severity.INFO, _local_disk, _DISK),
    (LmcacheSuspect.CHUNK_TOKENS, Severity.WARNING, _chunk_tokens, _SIZE),
)
