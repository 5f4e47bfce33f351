"""The three independent sums of a demo, and the rest of its report, read over HTTP as anyone would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import JsonValue

from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import TierscopeError
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Origin
from tierscope.registry.metrics import REQUEST_TOKENS, TIME_TO_FIRST_TOKEN

TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sums:
    """Prompt tokens by origin, obtained in three ways that share no code path."""

    sent: TokenSplit
    """Added up over the hook records as the testbed sent them."""
    scraped: TokenSplit
    """Read from the exporter's /metrics page."""
    stored: TokenSplit
    """Asked of the event store."""

    @property
    def equal(self) -> bool:
        """Whether the three agree to the token, and there was something to agree on."""
        return self.sent.prompt > 0 and self.sent == self.scraped == self.stored


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What a demo ends with."""

    sums: Sums
    completeness_ratio: float | None
    ttft_p50_seconds: Mapping[str, float]
    """Median time to first token by the outermost tier that served any of the prompt."""
    recommendation: dict[str, JsonValue]
    urls: Mapping[str, str]

    @property
    def advised_unix_seconds(self) -> float:
        """When the recommendation was computed."""
        return datetime.fromisoformat(str(self.recommendation["generated_at"])).timestamp()


def read_sums(urls: Mapping[str, str], deployment: Deployment, *, sent: TokenSplit) -> Sums:
    """Take the three sums now; raises `TierscopeError` if a process does not answer."""
    path = f"{urls['api']}/v1/totals/{deployment.namespace}/{deployment.endpoint}"
    stored = _get(f"{path}?start=0").json()["records"]
    return Sums(sent=sent, scraped=scraped_tokens(_get(urls["metrics"]).text), stored=_split(stored))


def read_result(urls: Mapping[str, str], deployment: Deployment, sums: Sums) -> DemoResult | None:
    """Gather the report; None while there is no advice yet."""
    path = f"{urls['api']}/v1/recommendations/{deployment.namespace}/{deployment.endpoint}"
    response = _get(path, allowed=(200, 404))
    if response.status_code == 404:
        return None
    recommendation = response.json()
    evidence = recommendation["evidence"]
    return DemoResult(
        sums=sums,
        completeness_ratio=evidence["completeness_ratio"],
        ttft_p50_seconds=median_ttft_seconds(_get(urls["metrics"]).text),
        recommendation=recommendation,
        urls=urls,
    )


def scraped_tokens(page: str) -> TokenSplit:
    """Sum the request-token counters of a /metrics page over all engines."""
    by_origin = dict.fromkeys((origin.value for origin in Origin), 0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == REQUEST_TOKENS.name:
                by_origin[sample.labels["tier"]] += int(sample.value)
    return TokenSplit(sum(by_origin.values()), **by_origin)


def median_ttft_seconds(page: str) -> dict[str, float]:
    """Median TTFT by `served_from`, read between the histogram's edges as Prometheus does."""
    buckets: dict[str, dict[float, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == f"{TIME_TO_FIRST_TOKEN.name}_bucket":
                counts = buckets.setdefault(sample.labels["served_from"], {})
                edge = float(sample.labels["le"])
                counts[edge] = counts.get(edge, 0) + sample.value
    medians = {served_from: _median(sorted(counts.items())) for served_from, counts in buckets.items()}
    return {served_from: median for served_from, median in medians.items() if median is not None}


def _median(cumulative: list[tuple[float, float]]) -> float | None:
    """Interpolate linearly inside the bucket that holds the middle; the last finite edge beyond it."""
    total = cumulative[-1][1]
    lower_edge, lower_count = 0.0, 0.0
    for edge, count in cumulative:
        if total and count >= total / 2:
            if edge == float("inf"):
                return lower_edge
            return lower_edge + (edge - lower_edge) * (total / 2 - lower_count) / (count - lower_count)
        lower_edge, lower_count = edge, count
    return None


def _split(tokens: Mapping[str, int]) -> TokenSplit:
    return TokenSplit(tokens["prompt"], **{origin.value: tokens[origin.value] for origin in Origin})


def _get(url: str, *, allowed: tuple[int, ...] = (200,)) -> httpx.Response:
    try:
        response = httpx.get(url, timeout=TIMEOUT_SECONDS)
    except httpx.HTTPError as error:
        raise TierscopeError(
            f"no answer: {type(error).__name__}", where=url, fix="see whether the process was restarted"
        ) from error
    if response.status_code not in allowed:
        raise TierscopeError(
            f"answered {response.status_code}: {response.text[:200]}",
            where=url,
            fix="see the process's messages",
        )
    return response
