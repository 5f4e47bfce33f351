"""An engine's `/metrics` page as cumulative prompt counters and cache sizes. Pure; no release is assumed.

vLLM counts prompt tokens at two moments. `prompt_tokens` and `prompt_tokens_by_source` grow when a request
reaches its first token; `prefix_cache_*` and `prompt_tokens_cached_by_source` grow when it is admitted.
The parts of a prompt are therefore taken from the first kind, and the second kind only says which tier a part
belongs to (see `exporters.vllm.counters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporters.exposition import Exposition
from exporters.oddities import Finding, Oddity
from exporters.vllm import names
from exporters.vllm.readings import EngineReading, read_engines
from exporters.vllm.suspicion import Verdict, judge
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Origin

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

UNKNOWN_GENERATION = "unknown_metric_generation"
"""Kind of the finding that a page is of a release we do not know."""


@dataclass(frozen=True, slots=True)
class PromptCounters:
    """Cumulative prompt tokens of one model on one engine, since its process began.

    `at_first_token` partitions the prompts; it is empty where the page's parts cannot be trusted. Its part
    `vague` is known to hold tokens of other origins too: `at_admission` counts those, though some of them
    may belong to requests that have not reached their first token or never will. `queries` and `hits` are
    lookups in L0, at admission; None where they are absent or, with `lookups_lie`, not to be used.
    `created_unix_seconds` changes when the counters begin anew; None where the page does not say.
    """

    model: str
    engine_label: str
    at_first_token: Mapping[Origin, int]
    vague: Origin
    at_admission: Mapping[Origin, int]
    queries: int | None = None
    hits: int | None = None
    lookups_lie: bool = False
    created_unix_seconds: float | None = None
    usage_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Size of one engine's L0. `blocks` are those a prefix can live in, without vLLM's null block."""

    engine_label: str
    block_tokens: int | None
    blocks: int | None


@dataclass(frozen=True, slots=True)
class EnginePage:
    """What one page says: counters and cache sizes by engine, what could not be placed, and what lies."""

    counters: tuple[PromptCounters, ...]
    configs: tuple[CacheConfig, ...]
    oddities: tuple[Oddity, ...] = ()
    findings: tuple[Finding, ...] = ()


def parse_engine_page(page: Exposition, *, where: str) -> EnginePage:
    """Turn a page into counters; what a release does not offer is absent.

    `where` is the page's address, for messages. A page that is no engine's has no counters.
    """
    oddities = list(_page_oddities(page))
    findings = list(_unknown_generation(page, where))
    counters: list[PromptCounters] = []
    for reading in read_engines(page):
        verdict = judge(reading, where=where)
        findings += verdict.findings
        counters.append(_counters(reading, verdict, oddities, where))
    return EnginePage(tuple(counters), tuple(_configs(page)), tuple(oddities), tuple(findings))


def _page_oddities(page: Exposition) -> Iterator[Oddity]:
    if page.garbage is not None:
        yield Oddity("unreadable metric line", page.garbage, page.garbage_lines)
    if page.repeat is not None:
        yield Oddity("series told twice", page.repeat, page.repeated_lines)


def _counters(reading: EngineReading, verdict: Verdict, oddities: list[Oddity], where: str) -> PromptCounters:
    if reading.by_source:
        # The parts are taken for the truth: a page is not one instant, so their sum may differ from `prompt`.
        at_first_token = _by_origin(reading.by_source, ORIGIN_OF_SOURCE, oddities, where)
        found = _by_origin(reading.cached_by_source, ORIGIN_OF_CACHED_SOURCE, oddities, where)
        found.pop(Origin.L0, None)
        vague, at_admission = Origin.EXTERNAL, found
    else:
        at_first_token = {} if reading.prompt is None else {Origin.COMPUTED: reading.prompt}
        vague = Origin.COMPUTED
        hits = {Origin.L0: reading.hits, Origin.EXTERNAL: reading.external_hits}
        at_admission = {origin: tokens for origin, tokens in hits.items() if tokens is not None}
    return PromptCounters(
        model=reading.model,
        engine_label=reading.engine_label,
        at_first_token=at_first_token if verdict.split else {},
        vague=vague,
        at_admission=at_admission if verdict.split else {},
        queries=reading.queries if verdict.lookups else None,
        hits=reading.hits if verdict.lookups else None,
        lookups_lie=not verdict.lookups,
        created_unix_seconds=reading.created_unix_seconds,
        usage_ratio=reading.usage_ratio,
    )


def _by_origin(
    by_source: Mapping[str, int], origin_of: Mapping[str, Origin], oddities: list[Oddity], where: str
) -> dict[Origin, int]:
    """Tokens by origin; a source without an origin in the table counts as external."""
    found: dict[Origin, int] = {}
    for source, tokens in by_source.items():
        origin = origin_of.get(source)
        if origin is None:
            oddities.append(_unknown_source(source, where))
            origin = Origin.EXTERNAL
        found[origin] = found.get(origin, 0) + tokens
    return found


def _unknown_generation(page: Exposition, where: str) -> Iterator[Finding]:
    """A page that counts prompts or lookups under names that no release we know has."""
    strange = sorted(filter(names.is_unknown, page.names))
    ours = any(name.startswith(names.PREFIX) for name in page.names)
    lost = [
        family[0]
        for family in (names.PROMPT, names.QUERIES, names.HITS)
        if ours and page.names.isdisjoint(family)
    ]
    if not strange and not lost:
        return
    said = []
    if lost:
        said.append(f"the page has no {', '.join(lost)} under any name it has had")
    if strange:
        said.append(f"it counts under names we do not know: {', '.join(strange[:5])}")
    error = BadInput(
        "; ".join(said),
        where=where,
        fix="what could be read was used, the rest is absent; report the engine's release",
    )
    yield Finding(UNKNOWN_GENERATION, Severity.WARNING if lost else Severity.INFO, error)


def _configs(page: Exposition) -> Iterator[CacheConfig]:
    """Cache sizes by engine.

    With several engines behind one API server `num_gpu_blocks` is the sum over them (seen in 0.32);
    `kv_cache_size_tokens` is of one engine, and therefore preferred where a release has it.
    """
    found = list(page.named(*names.CACHE_CONFIG))
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
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


def _unknown_source(source: str, where: str) -> Oddity:
    error = BadInput(
        f"prompt tokens have the source {source!r}, which is counted as external",
        where=where,
        fix="this engine is newer than we know; report its release",
    )
    return Oddity(f"source {source[:40]}", error)
