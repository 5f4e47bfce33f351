"""A trace as evidence: what a deployment would have recorded had it served those requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tierscope.advice.readings import chunk_tokens as known_chunk_tokens
from tierscope.advice.readings import read_tiers
from tierscope.advice.study import study_of
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.errors import BadInput
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.trace import Int32Array, Trace
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan

CHUNK_TOKENS = 256
"""LMCache's default; taken, in whole blocks, where a trace is replayed."""


def replayed(
    trace: Trace, deployment: Deployment, *, chunk_tokens: int | None = None
) -> tuple[Evidence, Deployment]:
    """Serve a trace by the modelled deployment; returns its records and the deployment with what was assumed.

    Requests go to the replicas by session where routing is `session`, else in turn: the policies that do
    not look at caches. L1 keeps its loads unless the deployment says otherwise. The records have no TTFT,
    and their hits are the model's own, so its self-check says nothing here.
    """
    if deployment.bytes_per_token is None:
        raise BadInput(
            "a trace does not tell how large a token's KV values are",
            where="bytes_per_token of the deployment",
            fix="set it: 2 x layers x KV heads x head size x bytes a value, e.g. 131072 for Llama-3.1-8B",
        )
    assumed = (
        deployment if deployment.l1_keeps_loads is not None else replace(deployment, l1_keeps_loads=True)
    )
    chunk = chunk_tokens or -(-CHUNK_TOKENS // trace.block_tokens) * trace.block_tokens
    arrived = SourceCoverage(
        source=SourceId(SourceKind.FEED, trace.name),
        incarnation=0,
        since_unix_seconds=0.0,
        at_unix_seconds=0.0,
        received=trace.requests,
        missing=0,
        undecodable=trace.skipped_lines,
    )
    evidence = Evidence(replace(_window_of(trace, assumed, chunk), coverage=(arrived,)), ())
    return as_modelled(evidence, assumed), assumed


def as_modelled(evidence: Evidence, deployment: Deployment) -> Evidence:
    """Put in each record's split of tokens what the model says of the deployment's sizes today."""
    chunk = known_chunk_tokens(evidence)
    if chunk is None or not evidence.window.requests:
        return evidence
    study = study_of(evidence, deployment, read_tiers(evidence, deployment), chunk)
    split = study.split(study.sizes_today())
    nothing = np.zeros_like(split.l0)
    window = replace(
        evidence.window, l0=split.l0, l1=split.l1, l2=split.l2, external=nothing, computed=split.computed
    )
    return replace(evidence, window=window)


def _window_of(trace: Trace, deployment: Deployment, chunk_tokens: int) -> RequestWindow:
    """The trace's requests on the deployment's replicas, nothing cached yet, whole blocks alone."""
    n = trace.requests
    chains = [
        trace.block_ids[start : start + min(end - start, tokens // trace.block_tokens)]
        for start, end, tokens in zip(
            trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), trace.input_tokens.tolist(), strict=True
        )
    ]
    at = trace.at_ms / 1000
    nothing, unknown = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    return RequestWindow(
        span=TimeSpan(float(at.min(initial=0.0)), float(at.max(initial=0.0)) + 0.001),
        engines=tuple(
            EngineId(deployment.namespace, deployment.endpoint, f"replica-{i}")
            for i in range(deployment.replicas)
        ),
        models=(deployment.model,),
        block_tokens=trace.block_tokens,
        chunk_tokens=chunk_tokens,
        at_unix_seconds=at,
        engine=_placement(trace, deployment),
        model=np.zeros(n, dtype=np.int32),
        session=(trace.session + 1).astype(np.uint64),
        prompt=trace.input_tokens,
        l0=nothing,
        l1=nothing,
        l2=nothing,
        external=nothing,
        computed=trace.input_tokens,
        queue_seconds=unknown,
        load_seconds=unknown,
        ttft_seconds=unknown,
        offsets=np.concatenate(([0], np.cumsum([len(chain) for chain in chains])), dtype=np.int64),
        block_hashes=(np.concatenate(chains) if chains else np.zeros(0, np.int32)).astype(np.uint64),
    )


def _placement(trace: Trace, deployment: Deployment) -> Int32Array:
    in_turn = np.arange(trace.requests, dtype=np.int32)
    if deployment.routing is RoutingPolicy.SESSION:
        in_turn = np.where(trace.session >= 0, trace.session, in_turn)
    return (in_turn % deployment.replicas).astype(np.int32)
