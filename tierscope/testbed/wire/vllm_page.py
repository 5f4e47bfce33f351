"""One engine's `/metrics` as vLLM 0.32 prints it: the families about tokens, caches and first tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.counters import FINISH_REASONS, TTFT_EDGES_SECONDS
from tierscope.testbed.model.engine import Engine
from tierscope.testbed.wire.exposition import Exposition, Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What a page says that does not change while the engine lives."""

    model: str
    blocks: int
    block_tokens: int
    bytes_per_token: int
    slots: int
    started_unix_seconds: float
    tier_split: bool

    @classmethod
    def of(cls, config: TestbedConfig, *, started_unix_seconds: float) -> EngineFacts:
        """What is so of every engine of a testbed, and when this one's life began."""
        return cls(
            model=config.model,
            blocks=config.l0_blocks,
            block_tokens=config.block_tokens,
            bytes_per_token=config.bytes_per_token,
            slots=config.slots,
            started_unix_seconds=started_unix_seconds,
            tier_split=config.tier_split,
        )


def vllm_page(engine: Engine, facts: EngineFacts) -> Exposition:
    """Return an engine's page of this moment."""
    page = Exposition(floats=True)
    labels = {"engine": "0", "model_name": facts.model}
    page.family(
        "process_start_time_seconds", "gauge", "When the process began.", [({}, facts.started_unix_seconds)]
    )
    _queue(page, engine, labels)
    _caches(page, engine, facts, labels)
    _prompts(page, engine, facts, labels)
    counters = engine.counters
    page.histogram(
        "vllm:time_to_first_token_seconds",
        "Seconds from arrival to the first token.",
        labels,
        edges=TTFT_EDGES_SECONDS,
        counts=counters.ttft_counts,
        total=counters.ttft_seconds,
    )
    _created(page, "vllm:time_to_first_token_seconds", facts, [labels])
    page.family("vllm:cache_config_info", "gauge", "The cache's configuration.", [(_config(facts), 1)])
    return page


def _queue(page: Exposition, engine: Engine, labels: Labels) -> None:
    pool = engine.pool
    page.family("vllm:num_requests_running", "gauge", "Requests with a slot.", [(labels, engine.running)])
    page.family("vllm:num_requests_waiting", "gauge", "Requests without one.", [(labels, engine.waiting)])
    page.family(
        "vllm:kv_cache_usage_perc",
        "gauge",
        "Share of the blocks that requests refer to.",
        [(labels, 1 - pool.free_blocks / pool.blocks)],
    )


def _caches(page: Exposition, engine: Engine, facts: EngineFacts, labels: Labels) -> None:
    counters = engine.counters
    external = counters.hit_l1 + counters.hit_l2
    for name, value, help_text in (
        ("prefix_cache_queries", counters.queried, "Tokens looked up in the prefix cache."),
        ("prefix_cache_hits", counters.hit_l0, "Tokens found in the prefix cache."),
        ("external_prefix_cache_queries", counters.external_queried, "Tokens asked of the connector."),
        ("external_prefix_cache_hits", external, "Tokens the connector had."),
    ):
        _counter(page, f"vllm:{name}", help_text, facts, [(labels, value)])
    _counter(
        page,
        "vllm:num_preemptions",
        "Requests whose blocks were taken away.",
        facts,
        [(labels, counters.preemptions)],
    )


def _prompts(page: Exposition, engine: Engine, facts: EngineFacts, labels: Labels) -> None:
    counters = engine.counters
    l1, l2 = (counters.hit_l1, counters.hit_l2) if facts.tier_split else (0, 0)
    tiers = {
        "device": counters.hit_l0,
        "host": l1,
        "p2p": 0,
        "disk": l2,
        "external_unspecified": counters.hit_l1 + counters.hit_l2 - l1 - l2,
    }
    origins = {
        "local_compute": counters.local_compute,
        "local_cache_hit": counters.local_hit,
        "external_kv_transfer": counters.external_transfer,
    }
    cached = counters.local_hit + counters.external_transfer
    reasons = {reason: counters.finished[reason] for reason in FINISH_REASONS}
    for name, help_text, samples in (
        ("prompt_tokens", "Prompt tokens processed.", [(labels, counters.prompt)]),
        ("prompt_tokens_by_source", "The same by source.", _by("source", origins, labels)),
        ("prompt_tokens_cached", "Those that were not computed.", [(labels, cached)]),
        ("prompt_tokens_cached_by_source", "Hits by tier, at admission.", _by("source", tiers, labels)),
        ("generation_tokens", "Tokens generated.", [(labels, counters.generated)]),
        ("request_success", "Requests answered.", _by("finished_reason", reasons, labels)),
    ):
        _counter(page, f"vllm:{name}", help_text, facts, samples)


def _by(label: str, values: dict[str, int], labels: Labels) -> list[tuple[Labels, float]]:
    return [({**labels, label: value}, count) for value, count in values.items()]


def _counter(
    page: Exposition,
    name: str,
    help_text: str,
    facts: EngineFacts,
    samples: Sequence[tuple[Labels, float]],
) -> None:
    page.family(f"{name}_total", "counter", help_text, samples)
    _created(page, name, facts, [labels for labels, _ in samples])


def _created(page: Exposition, name: str, facts: EngineFacts, series: Sequence[Labels]) -> None:
    """The gauges Python's client puts beside counters and histograms: when each series began."""
    page.family(
        f"{name}_created",
        "gauge",
        "When the series began.",
        [(labels, facts.started_unix_seconds) for labels in series],
    )


def _config(facts: EngineFacts) -> Labels:
    tokens = facts.blocks * facts.block_tokens
    return {
        "engine": "0",
        "block_size": str(facts.block_tokens),
        "cache_dtype": "auto",
        "enable_prefix_caching": "True",
        "gpu_memory_utilization": "0.92",
        "kv_cache_max_concurrency": str(float(facts.slots)),
        "kv_cache_memory_bytes": str(tokens * facts.bytes_per_token),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(facts.blocks),
        "num_gpu_blocks_override": "None",
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": "None",
    }
