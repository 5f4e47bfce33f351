"""The series of one engine on a page, under one name each whatever its release calls them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporters.exposition import Exposition, Series
from exporters.vllm import names
from exporters.vllm.buckets import Buckets, buckets_of
from exporters.vllm.names import Names

EngineKey = tuple[str, str]
"""The model's name and the engine label of a series."""


@dataclass(frozen=True, slots=True)
class EngineReading:
    """What a page says of one model on one engine; None or empty is what its release does not say.

    Counters are tokens since the engine began. `by_source` partitions the prompts that reached their
    first token, `cached_by_source` is of hits at admission, both by vLLM's names of the sources.
    `queries` and `hits` are L0 lookups, the `external` ones the connector's. `usage_ratio` is of L0.
    """

    model: str
    engine_label: str
    prompt: int | None
    by_source: Mapping[str, int]
    cached_by_source: Mapping[str, int]
    queries: int | None
    hits: int | None
    external_queries: int | None
    external_hits: int | None
    requests: int | None
    usage_ratio: float | None
    created_unix_seconds: float | None
    ttft: Buckets | None
    queue: Buckets | None
    prompt_length: Buckets | None
    computed_length: Buckets | None

    @property
    def left_over(self) -> int | None:
        """Tokens that L0 did not have: the only sound denominator of the connector's hit ratio."""
        return None if self.queries is None or self.hits is None else max(0, self.queries - self.hits)


def read_engines(page: Exposition) -> Iterator[EngineReading]:
    """Yield every model and engine that the page has counters of."""
    counters = {family: _counts(page, family) for family in _COUNTERS}
    keys = dict.fromkeys(key for found in counters.values() for key in found)
    for family in (names.BY_SOURCE, names.CACHED_BY_SOURCE):
        keys |= dict.fromkeys(engine_key(series) for series in _named(page, family))
    created = _gauges(page, names.CREATED)
    gauges = {family: _gauges(page, family) for family in _GAUGES}
    for key in keys:
        running, waiting = gauges[names.RUNNING].get(key), gauges[names.WAITING].get(key)
        yield EngineReading(
            model=key[0],
            engine_label=key[1],
            prompt=counters[names.PROMPT].get(key),
            by_source=_by_source(page, names.BY_SOURCE, key),
            cached_by_source=_by_source(page, names.CACHED_BY_SOURCE, key),
            queries=counters[names.QUERIES].get(key),
            hits=counters[names.HITS].get(key),
            external_queries=counters[names.EXTERNAL_QUERIES].get(key),
            external_hits=counters[names.EXTERNAL_HITS].get(key),
            requests=None if running is None else int(running + (waiting or 0)),
            usage_ratio=gauges[names.USAGE].get(key),
            created_unix_seconds=created.get(key, page.total(names.PROCESS_START)),
            ttft=_buckets(page, names.TTFT, key),
            queue=_buckets(page, names.QUEUE, key),
            prompt_length=_buckets(page, names.PROMPT_LENGTH, key),
            computed_length=_buckets(page, names.COMPUTED_LENGTH, key),
        )


_COUNTERS = (names.PROMPT, names.QUERIES, names.HITS, names.EXTERNAL_QUERIES, names.EXTERNAL_HITS)
_GAUGES = (names.RUNNING, names.WAITING, names.USAGE)


def engine_key(series: Series) -> EngineKey:
    """Whose series it is."""
    return series.labels.get("model_name", ""), series.labels.get("engine", "0")


def _named(page: Exposition, family: Names) -> Mapping[Series, float]:
    """The series of the first spelling that the page has."""
    return next((found for found in map(page.named, family) if found), {})


def _counts(page: Exposition, family: Names) -> dict[EngineKey, int]:
    """A counter by engine, summed over labels that a later release may have added."""
    found: dict[EngineKey, int] = {}
    for series, value in _named(page, family).items():
        if _is_count(value):
            found[engine_key(series)] = found.get(engine_key(series), 0) + int(value)
    return found


def _gauges(page: Exposition, family: Names) -> dict[EngineKey, float]:
    """A gauge by engine: the largest where several processes tell one, for they tell the same thing."""
    found: dict[EngineKey, float] = {}
    for series, value in _named(page, family).items():
        if _is_count(value):
            found[engine_key(series)] = max(found.get(engine_key(series), 0.0), value)
    return found


def _by_source(page: Exposition, family: Names, key: EngineKey) -> dict[str, int]:
    found: dict[str, int] = {}
    for series, value in _named(page, family).items():
        if engine_key(series) == key and _is_count(value):
            source = series.labels.get("source", "")
            found[source] = found.get(source, 0) + int(value)
    return found


def _buckets(page: Exposition, family: Names, key: EngineKey) -> Buckets | None:
    (name,) = family
    cumulative: dict[float, float] = {}
    for series, value in page.named(f"{name}_bucket").items():
        edge = _edge(series)
        if engine_key(series) == key and edge is not None:
            cumulative[edge] = cumulative.get(edge, 0.0) + value
    total, total_sum = (_first(page, f"{name}_{part}", key) for part in ("count", "sum"))
    return buckets_of(cumulative, total, total_sum) if cumulative else None


def _edge(series: Series) -> float | None:
    try:
        edge = float(series.labels.get("le", ""))
    except ValueError:
        return None
    return None if math.isnan(edge) else edge


def _first(page: Exposition, name: str, key: EngineKey) -> float:
    return sum(value for series, value in page.named(name).items() if engine_key(series) == key)


def _is_count(value: float) -> bool:
    """Whether a value can be a count: neither negative nor infinite nor no number."""
    return 0 <= value < math.inf
