"""What the API answers with, as types that its OpenAPI document is made from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from tierscope.advice.compared import Compared
from tierscope.advice.curves import Curve
from tierscope.advice.document import Finding
from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.events import SourceCoverage
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Tier

documented = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, config=documented)
class Health:
    """The process answers."""

    status: Literal["ok", "ready"]


@dataclass(frozen=True, config=documented)
class RecommendationSummary:
    """One endpoint's newest recommendation in short."""

    namespace: str
    endpoint: str
    status: str
    """recommend, no_change or insufficient_evidence."""
    generated_at: str
    changes: tuple[str, ...]
    """Ids of the recommended changes."""
    href: str
    """Where the whole document is."""


@dataclass(frozen=True, config=documented)
class Recommendations:
    """Every endpoint that has a recommendation."""

    recommendations: tuple[RecommendationSummary, ...]
    next: int | None = None
    """Send it as `after` for the rest; null after the last."""


@dataclass(frozen=True, config=documented)
class RecommendationHistory:
    """What was advised before, newest first."""

    recommendations: tuple[RecommendationSummary, ...]
    next: int | None
    """Send it as `after` for the rest; null after the last."""


@dataclass(frozen=True, config=documented)
class Outcomes:
    """Changes that came into force, newest first."""

    outcomes: tuple[Compared, ...]
    next: int | None
    """Send it as `after` for the rest; null after the last."""


@dataclass(frozen=True, config=documented)
class Curves:
    """Hit ratio by size of each tier."""

    generated_at: datetime
    curves: Mapping[Tier, Curve]


@dataclass(frozen=True, config=documented)
class EndpointFinding:
    """A finding and whose it is."""

    namespace: str
    endpoint: str
    finding: Finding


@dataclass(frozen=True, config=documented)
class Findings:
    """Findings of every endpoint, gravest first."""

    findings: tuple[EndpointFinding, ...]
    next: int | None
    """Send it as `after` for the rest; null after the last."""
    left_out: int
    """Of any severity, stored by another release and not known to this one; the log says whose they are."""


@dataclass(frozen=True, config=documented)
class Configurations:
    """Configurations of an endpoint, newest first."""

    deployments: tuple[DeploymentSince, ...]
    next: int | None
    """Send it as `after` for the rest; null after the last."""


@dataclass(frozen=True, config=documented)
class Tokens:
    """Prompt tokens by origin: prompt = l0 + l1 + l2 + external + computed."""

    prompt: int
    l0: int
    l1: int
    l2: int
    external: int
    """Loaded through a connector that does not tell its tier."""
    computed: int

    @classmethod
    def of(cls, split: TokenSplit) -> Tokens:
        """A split as it is answered."""
        return cls(**split.as_dict())


@dataclass(frozen=True, config=documented)
class Totals:
    """Token sums of one endpoint over a span of time, told twice: by records and by engines."""

    namespace: str
    endpoint: str
    start_unix_seconds: float
    end_unix_seconds: float
    records: Tokens
    """Summed over the request records that were stored."""
    engines: Tokens
    """What the engines' own counters grew by. They cannot tell L1 from L2 in every release."""
    completeness_ratio: float | None
    """Share of the request records that arrived; null where no source reports it."""


@dataclass(frozen=True, config=documented)
class Source:
    """How much of one source's stream arrived."""

    source: str
    """Kind and owner, e.g. vllm_hook:namespace/endpoint/replica/0."""
    since_unix_seconds: float
    until_unix_seconds: float
    received: int
    missing: int
    undecodable: int
    restarts: int
    completeness_ratio: float | None
    """Null before anything was due."""
    stale: bool
    """State derived from this source is unknown until it clears or restarts."""

    @classmethod
    def of(cls, coverage: SourceCoverage) -> Source:
        """A coverage as it is answered."""
        return cls(
            source=str(coverage.source),
            since_unix_seconds=coverage.since_unix_seconds,
            until_unix_seconds=coverage.at_unix_seconds,
            received=coverage.received,
            missing=coverage.missing,
            undecodable=coverage.undecodable,
            restarts=coverage.restarts,
            completeness_ratio=coverage.completeness_ratio,
            stale=coverage.stale,
        )


@dataclass(frozen=True, config=documented)
class Coverage:
    """Every source the store heard of in a span of time."""

    start_unix_seconds: float
    end_unix_seconds: float
    sources: tuple[Source, ...]


@dataclass(frozen=True, config=documented)
class Completeness:
    """How much of an endpoint's request records arrived in a span of time."""

    namespace: str
    endpoint: str
    start_unix_seconds: float
    end_unix_seconds: float
    completeness_ratio: float | None
    """Null where no source reports it."""
    sources: tuple[Source, ...]


@dataclass(frozen=True, config=documented)
class Regression:
    """First tokens that took longer than their prompts explain, and who did it."""

    model: str
    workload: str
    """The Deployment or StatefulSet whose replicas it is of; empty where pods' names do not tell."""
    since: str
    """UTC, to the minute."""
    since_unix_seconds: float
    found_unix_seconds: float
    requests: int
    """Requests since then that this rests on."""
    ratio: float
    """TTFT over what the prompts explain."""
    extra_seconds: float
    """What a request of median TTFT waits longer."""
    cause: str
    """tier_share, tier_speed, queue or engine."""
    tier: str | None
    reason: str | None
    """evictions, pool_full, routing, seed, worker_lost or slow."""
    factor: float
    """How many times slower, or which share of its usual hits is left."""
    parts: dict[str, float]
    """Seconds a request by cause, mix among them."""
    rollout_unix_seconds: float | None
    """The rollout it came after."""
    sentence: str
    """Who, how much, since when, what to do."""


@dataclass(frozen=True, config=documented)
class RegressionGroup:
    """A model on a workload's replicas, judged by itself."""

    model: str
    workload: str
    state: Literal["not_judged", "watching", "raised"]
    """not_judged: too few requests before that moment say what is usual."""
    before_requests: int
    """Its own before that moment, from when the configuration was what it is."""
    baseline_requests: int
    """Those that say what is usual."""
    baseline_workload: str | None
    """Whose they are: another's where this one began to serve a model that it served; null: nobody's."""
    requests: int
    """Its own since."""


@dataclass(frozen=True, config=documented)
class Regressions:
    """What was found since a moment, held against what came before it."""

    endpoint: str
    since_unix_seconds: float
    state: Literal["not_judged", "watching", "raised"]
    """not_judged: too few requests before that moment; raised: a regression goes on."""
    severity: Literal["info", "warning", "critical"] | None
    """info: it is over, warning: it goes on, critical: by half and more; null: none."""
    baseline_requests: int
    requests: int
    """Since then, of the groups that are judged."""
    groups: tuple[RegressionGroup, ...]
    """Each has its own baseline, or its kin's; what was found names its group."""
    regressions: tuple[Regression, ...]
    earlier: tuple[Regression, ...]
    """Found before that moment, and going on at the end: of no severity here."""
