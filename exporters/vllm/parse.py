"""An engine's `/metrics` page as cumulative prompt counters and cache sizes. Pure; no release is assumed.

vLLM counts prompt tokens at two moments. `prompt_tokens` and `prompt_tokens_by_source` grow when a request
reaches its first token; `prefix_cache_*` and `prompt_tokens_cached_by_source` grow when it is admitted.
The parts of a prompt are therefore taken from the first kind, and the second kind only says which tier a part
belongs to (see `exporters.vllm.counters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from exporters.exposition import Exposition, Series
from exporters.oddities import Oddity
from tierscope.domain.errors import BadInput
from tierscope.domain.tiers import Origin

PROMPT = "vllm:prompt_tokens_total"
BY_SOURCE = "vllm:prompt_tokens_by_source_total"
"""Split of the prompt tokens that reached their first token; since 0.16."""
CACHED_BY_SOURCE = "vllm:prompt_tokens_cached_by_source_total"
"""Tier of the hit tokens, at admission; since 0.32."""
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
EXTERNAL_HITS = ("vllm:external_prefix_cache_hits_total",)
CREATED = "vllm:prompt_tokens_created"
PROCESS_START = "process_start_time_seconds"
"""Both are absent where several API servers share one page."""
CACHE_CONFIG = "vllm:cache_config_info"

ORIGIN_OF_SOURCE = {
    "local_compute": Origin.COMPUTED,
    "local_cache_hit": Origin.L0,
    "external_kv_transfer": Origin.EXTERNAL,
}
ORIGIN_OF_CACHED_SOURCE = {
    "device": Origin.L0,
    "host": Origin.L1,
    "disk": Origin.L2,
    "p2p": Origin.EXTERNAL,
    "external_unspecified": Origin.EXTERNAL,
}

EngineKey = tuple[str, str]
"""The model's name and the engine label of a series."""


@dataclass(frozen=True, slots=True)
class PromptCounters:
    """Cumulative prompt tokens of one model on one engine, since its process began.

    `at_first_token` partitions the prompts. Its part `vague` is known to hold tokens of other
    origins too: `at_admission` counts those, though some of them may belong to requests that have not
    reached their first token or never will. `queries` and `hits` are lookups in L0, at admission.
    `created_unix_seconds` changes when the counters begin anew; None where the page does not say.
    """

    model: str
    engine_label: str
    at_first_token: Mapping[Origin, int]
    vague: Origin
    at_admission: Mapping[Origin, int]
    queries: int | None = None
    hits: int | None = None
    created_unix_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Size of one engine's L0. `blocks` are those a prefix can live in, without vLLM's null block."""

    engine_label: str
    block_tokens: int | None
    blocks: int | None


@dataclass(frozen=True, slots=True)
class EnginePage:
    """What one page says: counters and cache sizes by engine, and what on it could not be placed."""

    counters: tuple[PromptCounters, ...]
    configs: tuple[CacheConfig, ...]
    oddities: tuple[Oddity, ...] = ()


def parse_engine_page(page: Exposition, *, where: str) -> EnginePage:
    """Turn a page into counters; what a release does not offer is absent.

    `where` is the page's address, for messages. A page that is no engine's has no counters.
    """
    oddities: list[Oddity] = []
    if page.garbage is not None:
        oddities.append(Oddity("unreadable metric line", page.garbage, page.garbage_lines))
    totals = _by_engine(page, (PROMPT, "vllm:prompt_tokens"))
    counters = tuple(_counters(page, key, total, oddities, where) for key, total in totals.items())
    return EnginePage(counters, tuple(_configs(page)), tuple(oddities))


def _counters(
    page: Exposition, key: EngineKey, prompt: int, oddities: list[Oddity], where: str
) -> PromptCounters:
    by_source = _by_origin(page, BY_SOURCE, key, ORIGIN_OF_SOURCE, oddities, where)
    hits = _by_engine(page, HITS).get(key)
    if by_source:
        # The parts are taken for the truth: a page is not one instant, so their sum may differ from `prompt`.
        at_first_token, vague = by_source, Origin.EXTERNAL
        at_admission = _by_origin(page, CACHED_BY_SOURCE, key, ORIGIN_OF_CACHED_SOURCE, oddities, where)
        at_admission = {tier: tokens for tier, tokens in at_admission.items() if tier is not Origin.L0}
    else:
        at_first_token, vague = {Origin.COMPUTED: prompt}, Origin.COMPUTED
        external = _by_engine(page, EXTERNAL_HITS).get(key)
        found = {Origin.L0: hits, Origin.EXTERNAL: external}
        at_admission = {origin: tokens for origin, tokens in found.items() if tokens is not None}
    created = {_key(series): value for series, value in page.named(CREATED).items()}
    return PromptCounters(
        model=key[0],
        engine_label=key[1],
        at_first_token=at_first_token,
        vague=vague,
        at_admission=at_admission,
        queries=_by_engine(page, QUERIES).get(key),
        hits=hits,
        created_unix_seconds=created.get(key, page.total(PROCESS_START)),
    )


def _key(series: Series) -> EngineKey:
    return series.labels.get("model_name", ""), series.labels.get("engine", "0")


def _by_engine(page: Exposition, names: Iterable[str]) -> dict[EngineKey, int]:
    """Tokens by engine of the first of the names that the page has; older spellings come last."""
    for name in names:
        found = {_key(series): int(value) for series, value in page.named(name).items() if _is_count(value)}
        if found:
            return found
    return {}


def _by_origin(
    page: Exposition,
    name: str,
    key: EngineKey,
    origin_of: Mapping[str, Origin],
    oddities: list[Oddity],
    where: str,
) -> dict[Origin, int]:
    """Tokens of one engine by origin; a source without an origin in the table counts as external."""
    found: dict[Origin, int] = {}
    for series, value in page.named(name).items():
        if _key(series) != key or not _is_count(value):
            continue
        source = series.labels.get("source", "")
        origin = origin_of.get(source)
        if origin is None:
            oddities.append(_unknown_source(name, source, where))
            origin = Origin.EXTERNAL
        found[origin] = found.get(origin, 0) + int(value)
    return found


def _is_count(value: float) -> bool:
    """Whether a value can be a count: neither negative nor infinite nor no number."""
    return 0 <= value < float("inf")


def _configs(page: Exposition) -> Iterator[CacheConfig]:
    """Cache sizes by engine.

    With several engines behind one API server `num_gpu_blocks` is the sum over them (seen in 0.32);
    `kv_cache_size_tokens` is of one engine, and therefore preferred where a release has it.
    """
    found = list(page.named(CACHE_CONFIG))
    for series in found:
        block_tokens = _whole(series.labels.get("block_size"))
        size_tokens = _whole(series.labels.get("kv_cache_size_tokens"))
        blocks = _whole(series.labels.get("num_gpu_blocks"))
        if size_tokens and block_tokens:
            blocks = size_tokens // block_tokens
        elif blocks:
            blocks //= len(found)
        yield CacheConfig(
            series.labels.get("engine", "0"), block_tokens, blocks - 1 if blocks and blocks > 1 else None
        )


def _whole(text: str | None) -> int | None:
    """A label's number; vLLM prints None as text."""
    return int(text) if text is not None and text.isdecimal() else None


def _unknown_source(name: str, source: str, where: str) -> Oddity:
    error = BadInput(
        f"{name} has the source {source!r}, which is counted as external",
        where=where,
        fix="this engine is newer than we know; report its release",
    )
    return Oddity(f"source {source[:40]}", error)
