"""Recorded windows made up for tests, whose best sizes are known from how they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tierscope.advice.replay import as_modelled
from tierscope.domain.deployment import Deployment, RoutingPolicy, TierConfig
from tierscope.domain.events import SourceCoverage, TierSample
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan

BLOCK_TOKENS = 16
CHUNK_TOKENS = 64
BYTES_PER_TOKEN = 1024.0
CHUNK_BYTES = CHUNK_TOKENS * BYTES_PER_TOKEN
START = 1_700_000_000.0
NOW = START + 90_000.0


def engines(replicas: int) -> tuple[EngineId, ...]:
    return tuple(EngineId("ns", "chat", f"pod-{i}") for i in range(replicas))


def chain_hashes(document: int, blocks: int) -> np.ndarray:
    """Chained hashes of one document's blocks: any number that names document and depth."""
    return (np.uint64(document) << np.uint64(24)) + np.arange(blocks, dtype=np.uint64) + np.uint64(1)


def window(
    chains: Sequence[np.ndarray],
    *,
    replicas: int = 1,
    engine: Sequence[int] | None = None,
    tail_tokens: int = 1,
    seconds: float = 3600.0,
    chunk_tokens: int | None = CHUNK_TOKENS,
    hits: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ttft_seconds: np.ndarray | None = None,
) -> RequestWindow:
    """A window of requests with these chains, evenly spread, each prompt `tail_tokens` beyond its blocks.

    `hits` are l0, l1, l2 tokens a request; without them everything was computed.
    """
    n = len(chains)
    lengths = np.array([len(chain) for chain in chains], dtype=np.int64)
    prompt = lengths * BLOCK_TOKENS + tail_tokens
    nothing = np.zeros(n, dtype=np.int64)
    l0, l1, l2 = hits or (nothing, nothing, nothing)
    unknown = np.full(n, np.nan)
    at = START + np.linspace(0, seconds, n, endpoint=False) if n else np.zeros(0)
    return RequestWindow(
        span=TimeSpan(START, START + seconds),
        engines=engines(replicas),
        models=("m",),
        block_tokens=BLOCK_TOKENS,
        chunk_tokens=chunk_tokens,
        at_unix_seconds=at,
        engine=np.array(engine if engine is not None else np.arange(n) % replicas, dtype=np.int32),
        model=np.zeros(n, dtype=np.int32),
        session=np.zeros(n, dtype=np.uint64),
        prompt=prompt,
        l0=l0,
        l1=l1,
        l2=l2,
        external=nothing,
        computed=prompt - l0 - l1 - l2,
        queue_seconds=unknown,
        load_seconds=unknown,
        ttft_seconds=unknown if ttft_seconds is None else ttft_seconds,
        offsets=np.concatenate(([0], np.cumsum(lengths)), dtype=np.int64),
        block_hashes=np.concatenate(chains) if n else np.zeros(0, dtype=np.uint64),
    )


def cycle(documents: int, requests: int, blocks: int = 16) -> list[np.ndarray]:
    """Documents of `blocks` blocks asked for in turn: LRU below their sum hits nothing, at their sum all."""
    return [chain_hashes(i % documents, blocks) for i in range(requests)]


def drawn(documents: int, requests: int, rng: np.random.Generator, skew: float = 1.0) -> list[np.ndarray]:
    """Documents drawn independently, rank r with weight r^-skew: a stationary workload."""
    weights = np.arange(1, documents + 1, dtype=float) ** -skew
    picks = rng.choice(documents, size=requests, p=weights / weights.sum())
    return [chain_hashes(int(i), 16) for i in picks]


def deployment(
    l1_bytes: float | None = None,
    l2_bytes: float | None = None,
    *,
    l0_bytes: float | None = 4 * BLOCK_TOKENS * BYTES_PER_TOKEN,
    replicas: int = 1,
    limits: tuple[float | None, float | None] = (None, None),
    **changes: object,
) -> Deployment:
    """A deployment with these tier sizes; L0 holds four blocks unless said otherwise."""
    sizes = ((Tier.L0, l0_bytes, None), (Tier.L1, l1_bytes, limits[0]), (Tier.L2, l2_bytes, limits[1]))
    tiers = tuple(TierConfig(tier, size, limit) for tier, size, limit in sizes if size is not None)
    fields = {"bytes_per_token": BYTES_PER_TOKEN, "routing": RoutingPolicy.ROUNDROBIN, "l1_keeps_loads": True}
    return Deployment("ns", "chat", "qwen", replicas, tiers=tiers, **{**fields, **changes})  # type: ignore[arg-type]


def coverage(received: int, missing: int = 0, kind: SourceKind = SourceKind.VLLM_HOOK) -> SourceCoverage:
    return SourceCoverage(SourceId(kind, "ns/chat/pod-0/0"), 1, START, NOW, received, missing)


def evidence(
    of: RequestWindow,
    *,
    samples: Sequence[TierSample] = (),
    covered: Sequence[SourceCoverage] | None = None,
) -> Evidence:
    """Evidence of a window whose records all arrived, unless said otherwise."""
    arrived = (coverage(of.requests),) if covered is None else tuple(covered)
    return Evidence(replace(of, coverage=arrived), tuple(samples))


def served(of: RequestWindow, by: Deployment, **more: object) -> Evidence:
    """Evidence of a deployment that served a window exactly as the model says it does."""
    return as_modelled(evidence(of, **more), by)  # type: ignore[arg-type]
