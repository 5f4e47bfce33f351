"""Who says which tier served a prompt: an exporter's page, or the engine's and LMCache's own.

Prompts are asked one at a time, so what the counters grew by is the prompt's. If they grew by more, others
asked meanwhile: then nothing is told of that prompt, and it is counted as disturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from exporters.attribution import loaded_of
from exporters.exposition import Exposition, SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from exporters.lmcache.parse import parse_counters
from exporters.vllm.parse import parse_engine_page
from tierscope.domain.requests import CacheLookup, TokenSplit
from tierscope.domain.tiers import Origin
from tierscope.registry import metrics, transfer_metrics
from tierscope.registry.types import Metric

PATIENCE_SECONDS = 60.0
"""How long a page may take to show an answer: exporters poll, engines count at the first token."""

LOOK_SECONDS = 0.05

Tokens = Mapping[str, int]
"""Prompt tokens by origin, and `l1_found` for what LMCache's L1 had of the prompts looked up."""


class Witness(Protocol):
    """Counters of all replicas or of one."""

    def read(self, replica: int) -> Tokens:
        """Return the present counters."""


@dataclass(slots=True)
class ExporterWitness:
    """Exporters' pages: the split of every request, as their feeds and stores have it."""

    urls: Sequence[str]
    fetcher: Fetcher
    _cache: SeriesCache = field(default_factory=SeriesCache)

    def read(self, replica: int) -> Tokens:  # noqa: ARG002 - the exporters know all replicas
        """Sum the pages up."""
        pages = [_page(self.fetcher, url, self._cache) for url in self.urls]
        return {
            origin: int(sum(_sum(page, metrics.REQUEST_TOKENS, tier=origin) for page in pages))
            for origin in Origin
        }

    def loads(self) -> tuple[float, float]:
        """Seconds that loads from L2 took, and their bytes, so far."""
        pages = [_page(self.fetcher, url, self._cache) for url in self.urls]
        seconds = transfer_metrics.TIER_LOAD_SECONDS
        return (
            sum(_sum(page, seconds, suffix="_sum", tier="l2") for page in pages),
            sum(_sum(page, transfer_metrics.TRANSFERRED_BYTES, tier="l2", action="load") for page in pages),
        )


@dataclass(slots=True)
class EngineWitness:
    """The replicas' own pages. Without `cache_urls`, what a connector loaded is of no known tier."""

    urls: Sequence[str]
    cache_urls: Sequence[str]
    fetcher: Fetcher
    _cache: SeriesCache = field(default_factory=SeriesCache)

    def read(self, replica: int) -> Tokens:
        """Read one replica's page, and its LMCache server's."""
        url = f"{self.urls[replica]}/metrics"
        found: dict[str, int] = {}
        for counters in parse_engine_page(_page(self.fetcher, url, self._cache), where=url).counters:
            for origin, tokens in counters.at_first_token.items():
                found[origin] = found.get(origin, 0) + tokens
        if self.cache_urls:
            page = _page(self.fetcher, f"{self.cache_urls[replica]}/metrics", self._cache)
            found["l1_found"] = parse_counters(page).get("hit_l1", 0)
        return found


@dataclass(slots=True)
class Hearing:
    """Asks a witness before and after each prompt. `disturbed` counts prompts it could not tell of."""

    witness: Witness
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    disturbed: int = 0
    _before: Tokens = field(default_factory=dict)

    def begin(self, replica: int) -> None:
        """Look before a prompt is sent."""
        self._before = self.witness.read(replica)

    def end(self, replica: int, prompt_tokens: int) -> TokenSplit | None:
        """Return where the prompt came from; None where the counters do not show it alone."""
        deadline = self.monotonic() + PATIENCE_SECONDS
        while True:
            now = self.witness.read(replica)
            growth = {name: count - self._before.get(name, 0) for name, count in now.items()}
            told = sum(growth.get(origin, 0) for origin in Origin)
            if told >= prompt_tokens or self.monotonic() > deadline:
                break
            self.sleep(LOOK_SECONDS)
        if told != prompt_tokens:
            self.disturbed += 1
            return None
        return _split(growth, prompt_tokens)


def _split(growth: Tokens, prompt_tokens: int) -> TokenSplit:
    l0, l1, l2, external = (
        growth.get(origin, 0) for origin in (Origin.L0, Origin.L1, Origin.L2, Origin.EXTERNAL)
    )
    if external and "l1_found" in growth:
        lookup = CacheLookup("", 0.0, l0 + external, growth["l1_found"])
        l1, l2 = loaded_of(lookup, l0, external)
        external = 0
    return TokenSplit(prompt_tokens, l0, l1, l2, external, growth.get(Origin.COMPUTED, 0))


def _page(fetcher: Fetcher, url: str, cache: SeriesCache) -> Exposition:
    return parse_exposition(fetcher.get(url), where=url, cache=cache)


def _sum(page: Exposition, metric: Metric, *, suffix: str = "", **labels: str) -> float:
    found = page.named(metric.name + suffix).items()
    return sum(value for series, value in found if labels.items() <= series.labels.items())


def testifies(witness: Witness) -> bool:
    """Whether a witness counts prompt tokens at all; a page of an unknown or lying release does not."""
    return any(origin in witness.read(0) for origin in Origin)
