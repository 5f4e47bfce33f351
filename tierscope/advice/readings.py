"""What the tiers' own readings and the sources' coverage say: sizes, bytes a token, completeness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tierscope.advice.holders import bytes_per_token, latest, own, own_pools
from tierscope.domain.deployment import Deployment
from tierscope.domain.events import SourceCoverage, TierSample
from tierscope.domain.identity import SourceKind
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence

RECORD_SOURCES = (SourceKind.VLLM_HOOK, SourceKind.FEED)
"""The two streams every request record travels; losses on either lose requests."""


class TierReading(NamedTuple):
    """One tier now, of one holder on average; None where no source says."""

    capacity_bytes: float | None
    used_bytes: float | None
    bytes_per_token: float | None
    capacity_tokens: float | None


def read_tiers(evidence: Evidence, deployment: Deployment) -> Mapping[Tier, TierReading]:
    """Read every tier the deployment has or a source reports; configuration goes before readings.

    A tier whose own bytes a token are not known takes those of another: KV values are stored as they are.
    What was measured goes before what follows from the model's configuration. Only the endpoint's own
    holders count; where servers that differ may be, none of them does.
    """
    newest = latest(own_pools(own(evidence).agreed, deployment))
    measured = {tier: bytes_per_token(newest.get(tier, ())) for tier in Tier}
    known = next((value for value in measured.values() if value is not None), None)
    per_token = {
        tier: deployment.bytes_per_token
        or (known if value is None else value)
        or deployment.model_bytes_per_token
        for tier, value in measured.items()
    }
    return {
        tier: _reading(tier, deployment, newest.get(tier, ()), per_token[tier])
        for tier in Tier
        if deployment.tier(tier) is not None or tier in newest
    }


def completeness_ratio(coverage: Iterable[SourceCoverage]) -> float | None:
    """Share of the record streams that arrived: hook times feed, each pooled; None if neither reported."""
    share: float | None = None
    for kind in RECORD_SOURCES:
        parts = [part for part in coverage if part.source.kind is kind]
        due = sum(part.received + part.missing + part.undecodable for part in parts)
        if due:
            share = (1.0 if share is None else share) * sum(part.received for part in parts) / due
    return share


def chunk_tokens(evidence: Evidence) -> int | None:
    """Tokens of a chunk in L1 and L2: what the records say, else what the tiers' own readings say."""
    if evidence.window.chunk_tokens is not None:
        return evidence.window.chunk_tokens
    return own(evidence).chunk_tokens()


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _reading(
    tier: Tier, deployment: Deployment, samples: tuple[TierSample, ...], per_token: float | None
) -> TierReading:
    config = deployment.tier(tier)
    capacity = config.capacity_bytes if config else _mean(sample.capacity_bytes for sample in samples)
    tokens = capacity / per_token if capacity and per_token else None
    if tier is Tier.L0:
        counted = _mean(
            sample.capacity_blocks * sample.block_tokens
            for sample in samples
            if sample.capacity_blocks and sample.block_tokens
        )
        tokens = tokens if counted is None else counted
        if capacity is None and tokens is not None and per_token is not None:
            capacity = tokens * per_token
    return TierReading(capacity, _mean(sample.used_bytes for sample in samples), per_token, tokens)
