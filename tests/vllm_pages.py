"""DERIVED engine pages: what `/metrics` of a vLLM release says after one workload.

They are built from tables of the names that each release is known to have. Values are ours; names, labels
and kinds are vLLM's. Only the families that a reader of prompts and caches can meet are built, with some
that it must not mistake for them (`iteration_tokens_total` is a histogram).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LENGTH_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
TTFT_EDGES = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
LATENCY_EDGES = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0)


@dataclass(frozen=True)
class Release:
    """What tells the pages of one release from those of another."""

    name: str
    lookups: Sequence[str]
    """The families of L0 lookups and usage that are on the page, by their prefix (`gpu_` or none)."""
    engine_label: bool = True
    external: bool = True
    computed_length: bool = True
    by_source: bool = True
    recomputed: bool = False
    cached_by_source: bool = True
    size_tokens: bool = True


RELEASES = {
    release.name: release
    for release in (
        Release("0.8", ["gpu_"], engine_label=False, external=False, computed_length=False,
                by_source=False, cached_by_source=False, size_tokens=False),
        Release("0.10.2", ["gpu_", ""], external=False, computed_length=False,
                by_source=False, cached_by_source=False, size_tokens=False),
        Release("0.11.2", ["gpu_", ""], computed_length=False,
                by_source=False, cached_by_source=False, size_tokens=False),
        Release("0.14", [""], by_source=False, cached_by_source=False, size_tokens=False),
        Release("0.16", [""], recomputed=True, cached_by_source=False, size_tokens=False),
        Release("0.20", [""], cached_by_source=False, size_tokens=False),
        Release("0.26", [""], cached_by_source=False),
        Release("0.31", [""], cached_by_source=False),
        Release("0.32", [""]),
        Release("0.33", [""]),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One served request, in tokens and seconds. `lookups` is how often it was looked up and counted."""

    prompt: int
    l0: int = 0
    host: int = 0
    disk: int = 0
    ttft: float = 0.3
    queue: float = 0.01
    lookups: int = 1
    skip: bool = False

    @property
    def external(self) -> int:
        return self.host + self.disk

    @property
    def computed(self) -> int:
        return self.prompt - self.l0 - self.external


@dataclass(frozen=True)
class Page:
    """One page: the release, the requests each engine has served, and how it is exposed.

    `created` is left out where several API servers share one page. `asked` is the rule by which the
    release counts what it asks of the connector.
    """

    release: Release
    engines: dict[str, Sequence[Request]]
    model: str = "tiny-llama"
    created: float | None = 1.7e9
    asked: str = "left_over"
    total: str = "_total"
    block_size: int = 16
    num_gpu_blocks: int = 1001
    usage: float = 0.25
    running: int = 0

    def text(self) -> str:
        """The page."""
        return "\n".join(["# DERIVED", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        if self.created is not None:
            yield f"process_start_time_seconds {self.created - 5}"
        for engine, requests in self.engines.items():
            labels = {"model_name": self.model}
            if self.release.engine_label:
                labels["engine"] = engine
            yield from self._gauges(labels, engine)
            yield from self._counters(labels, requests)
            yield from self._histograms(labels, requests)

    def _gauges(self, labels, engine):
        yield series("vllm:num_requests_running", labels, self.running)
        yield series("vllm:num_requests_waiting", labels, 0)
        for prefix in self.release.lookups:
            name = "vllm:gpu_cache_usage_perc" if prefix else "vllm:kv_cache_usage_perc"
            yield series(name, labels, self.usage)
        config = {"block_size": self.block_size, "num_gpu_blocks": self.num_gpu_blocks * len(self.engines)}
        if self.release.size_tokens:
            config["kv_cache_size_tokens"] = self.num_gpu_blocks * self.block_size
        if self.release.engine_label:
            config["engine"] = engine
        yield series("vllm:cache_config_info", {**config, "enable_prefix_caching": "True"}, 1)

    def _counters(self, labels, requests):
        asked = [request for request in requests for _ in range(request.lookups) if not request.skip]
        yield from self._counter("prompt_tokens", labels, sum(r.prompt for r in requests))
        yield from self._counter("generation_tokens", labels, 7 * len(requests))
        yield from self._counter("num_preemptions", labels, 0)
        for prefix in self.release.lookups:
            yield from self._counter(f"{prefix}prefix_cache_queries", labels, sum(r.prompt for r in asked))
            yield from self._counter(f"{prefix}prefix_cache_hits", labels, sum(r.l0 for r in asked))
        external = any(request.external for request in requests)
        if self.release.external:
            queries = sum(map(ASKED[self.asked], requests)) if external or self.asked != "left_over" else 0
            yield from self._counter("external_prefix_cache_queries", labels, queries)
            yield from self._counter("external_prefix_cache_hits", labels, sum(r.external for r in requests))
        if self.release.by_source:
            parts = {
                "local_compute": sum(r.computed for r in requests),
                "local_cache_hit": sum(r.l0 for r in requests),
                "external_kv_transfer": sum(r.external for r in requests),
            }
            for source, tokens in parts.items():
                yield from self._counter("prompt_tokens_by_source", {**labels, "source": source}, tokens)
            cached = parts["local_cache_hit"] + parts["external_kv_transfer"]
            yield from self._counter("prompt_tokens_cached", labels, cached)
        if self.release.recomputed:
            yield from self._counter("prompt_tokens_recomputed", labels, 0)
        if self.release.cached_by_source:
            tiers = {"device": "l0", "host": "host", "disk": "disk"}
            for source, tier in tiers.items():
                tokens = sum(getattr(r, tier) for r in requests)
                yield from self._counter(
                    "prompt_tokens_cached_by_source", {**labels, "source": source}, tokens
                )

    def _counter(self, name, labels, value):
        yield f"# TYPE vllm:{name} counter"
        yield series(f"vllm:{name}{self.total}", labels, value)
        if self.created is not None:
            yield series(f"vllm:{name}_created", labels, self.created)

    def _histograms(self, labels, requests):
        lengths = [r.prompt for r in requests]
        yield from histogram("request_prompt_tokens", labels, LENGTH_EDGES, lengths)
        yield from histogram(
            "iteration_tokens_total", labels, LENGTH_EDGES, [r.computed + 1 for r in requests]
        )
        yield from histogram("time_to_first_token_seconds", labels, TTFT_EDGES, [r.ttft for r in requests])
        yield from histogram("request_queue_time_seconds", labels, LATENCY_EDGES, [r.queue for r in requests])
        prefill = [r.ttft - r.queue for r in requests]
        yield from histogram("request_prefill_time_seconds", labels, LATENCY_EDGES, prefill)
        if self.release.computed_length:
            computed = [r.computed for r in requests]
            yield from histogram("request_prefill_kv_computed_tokens", labels, LENGTH_EDGES, computed)


ASKED = {
    "left_over": lambda r: 0 if r.skip else r.prompt - r.l0,
    "whole_prompt": lambda r: r.prompt,
    "twice": lambda r: (r.prompt - r.l0) * (2 if r.external else 1),
    "skipping_too": lambda r: r.prompt - r.l0,
}


def series(name, labels, value):
    """One line of a page."""
    text = ",".join(f'{label}="{text}"' for label, text in sorted(labels.items()))
    return f"{name}{{{text}}} {float(value)}"


def histogram(name, labels, edges, values) -> Iterator[str]:
    """All lines of one histogram."""
    yield f"# TYPE vllm:{name} histogram"
    for edge in (*edges, float("inf")):
        le = "+Inf" if edge == float("inf") else str(float(edge))
        yield series(f"vllm:{name}_bucket", {**labels, "le": le}, sum(value <= edge for value in values))
    yield series(f"vllm:{name}_count", labels, len(values))
    yield series(f"vllm:{name}_sum", labels, sum(values))
