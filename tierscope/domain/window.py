"""A slice of recorded history as arrays: what the store hands to analytics and advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tierscope.domain.deployment import Deployment, DeploymentSince
from tierscope.domain.events import SourceCoverage, TierSample
from tierscope.domain.identity import EngineId
from tierscope.domain.names import Beginning
from tierscope.domain.requests import TokenSplit
from tierscope.domain.trace import FloatArray, Int32Array, Int64Array, UInt64Array

MOST_UNIX_SECONDS = 7e12
"""The times we store lie between this and its negative, so that every `hour` fits an INTEGER."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A half-open span of time in unix seconds: start <= t < end."""

    start_unix_seconds: float
    end_unix_seconds: float

    @property
    def seconds(self) -> float:
        """Length of the span."""
        return self.end_unix_seconds - self.start_unix_seconds


@dataclass(frozen=True, slots=True)
class RequestWindow:
    """Served first admissions of one endpoint in a span of time, oldest first.

    Shapes: (n,) each, except `offsets` (n + 1,) and `block_hashes` (accesses,); request i's chain is
    `block_hashes[offsets[i]:offsets[i + 1]]`. `engine[i]` indexes `engines`, `model[i]`
    `models`. Tokens are int64. Durations are NaN where the engine did not say. `session` is 0 where unknown.
    `coverage` says how complete the sources are that the rows came from.
    """

    span: TimeSpan
    engines: tuple[EngineId, ...]
    models: tuple[str, ...]
    block_tokens: int
    chunk_tokens: int | None
    at_unix_seconds: FloatArray
    engine: Int32Array
    model: Int32Array
    session: UInt64Array
    prompt: Int64Array
    l0: Int64Array
    l1: Int64Array
    l2: Int64Array
    external: Int64Array
    computed: Int64Array
    queue_seconds: FloatArray
    load_seconds: FloatArray
    ttft_seconds: FloatArray
    offsets: Int64Array
    block_hashes: UInt64Array
    coverage: tuple[SourceCoverage, ...] = ()

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.at_unix_seconds)

    @property
    def accesses(self) -> int:
        """Number of block accesses."""
        return len(self.block_hashes)

    def totals(self) -> TokenSplit:
        """Tokens by origin, summed over the window."""
        return TokenSplit(
            *(
                int(part.sum())
                for part in (self.prompt, self.l0, self.l1, self.l2, self.external, self.computed)
            )
        )


@dataclass(frozen=True, slots=True)
class CoveredTokens:
    """The sums of a span, and how complete the sources are that they rest on."""

    tokens: TokenSplit
    coverage: tuple[SourceCoverage, ...]


@dataclass(frozen=True, slots=True)
class CoveredSamples:
    """The readings of a span, and how complete the sources are that they came from."""

    samples: tuple[TierSample, ...]
    coverage: tuple[SourceCoverage, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything advice may rest on: the requests, the readings of the tiers, and how complete both are.

    `beginnings` are what engines and cache servers call the first chunks of prompts, each pair of names once,
    oldest first.
    """

    window: RequestWindow
    samples: tuple[TierSample, ...]
    beginnings: tuple[Beginning, ...] = ()

    @property
    def coverage(self) -> tuple[SourceCoverage, ...]:
        """How complete the sources are that all of it came from."""
        return self.window.coverage


def changes_within(known: Sequence[DeploymentSince], span: TimeSpan) -> tuple[float, ...]:
    """When a configuration that serves otherwise took another's place in the span, in unix seconds.

    `known` are those in force in the span, oldest first: the first of them replaces none that is known. More
    or fewer replicas are no other configuration, nor are limits, objectives and what is only wired otherwise.
    """
    return tuple(
        one.since_unix_seconds
        for before, one in pairwise(known)
        if span.start_unix_seconds <= one.since_unix_seconds < span.end_unix_seconds
        and _serving(before.deployment) != _serving(one.deployment)
    )


def _serving(deployment: Deployment) -> tuple[object, ...]:
    sizes = tuple((config.tier, config.capacity_bytes) for config in deployment.tiers)
    return (
        deployment.model, deployment.routing, sizes, deployment.tensor_parallel, deployment.l2_workers,
        deployment.l1_keeps_loads,
    )  # fmt: skip
