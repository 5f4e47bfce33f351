"""The deployment in force: replicas, tier sizes, routing, and what its owner wants of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tierscope.domain.prices import Prices
from tierscope.domain.tiers import Tier
from tierscope.domain.wiring import Wiring


class RoutingPolicy(StrEnum):
    """How requests are spread over replicas; the names are the router's own."""

    ROUNDROBIN = "roundrobin"
    SESSION = "session"
    PREFIXAWARE = "prefixaware"
    KVAWARE = "kvaware"
    GATEWAY = "gateway"
    """The inference gateway weighs several scores; there is no strategy to choose."""
    NONE = "none"
    """There is no router: the load balancer spreads requests without looking at them."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TierConfig:
    """The configured size of one tier."""

    tier: Tier
    """Which tier this is."""
    capacity_bytes: float
    """Size of one holder: an engine's L0, a replica's L1, the whole shared pool for L2."""
    limit_bytes: float | None = None
    """The most one holder may be given (allocatable memory or disk); none: not known."""


class ObjectiveKind(StrEnum):
    """What a deployment's owner wants the tiers to achieve."""

    HIT_RATIO_SHARE = "hit_ratio_share"
    """The smallest sizes whose hit ratio is at least `target` (0 to 1) of what unlimited sizes would give."""
    HIT_RATIO = "hit_ratio"
    """The cheapest sizes (without prices: the least bytes) whose hit ratio is at least `target` (0 to 1)."""
    LOWEST_TTFT = "lowest_ttft"
    """The sizes with the lowest TTFT that cost at most `target` an hour."""
    LOWEST_COST = "lowest_cost"
    """The cheapest sizes whose TTFT is at most `target` seconds."""


class TtftQuantile(StrEnum):
    """Which TTFT an objective is about."""

    P50 = "p50"
    P90 = "p90"

    @property
    def share(self) -> float:
        """The share of requests that are at least as fast."""
        return 0.5 if self is TtftQuantile.P50 else 0.9


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What sizing may change of how the engine starts; everything else of it stays."""

    gpu_memory_ratios: tuple[float, ...] = ()
    """Values of --gpu-memory-utilization to choose from; none: it stays."""
    cache_dtypes: tuple[str, ...] = ()
    """Values of --kv-cache-dtype to choose from; a narrower one changes answers, so measure those first."""
    least_model_len: int | None = None
    """The shortest --max-model-len that will do; none: it stays. Lowered only where L0 could not hold it."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What sizing aims at, the prices it weighs, and what of the engine it may change."""

    kind: ObjectiveKind = ObjectiveKind.HIT_RATIO_SHARE
    """What is wanted: a share of the hit ratio of unlimited sizes, a hit ratio, or a TTFT or a cost."""
    target: float = 0.95
    """How much: 0 to 1 for a hit ratio, money an hour for `lowest_ttft`, seconds for `lowest_cost`."""
    ttft: TtftQuantile = TtftQuantile.P90
    """The TTFT that `lowest_ttft` and `lowest_cost` are about."""
    prices: Prices | None = None
    """What sizes and instances cost; none: no cost is predicted."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    """What of the engine may be changed for it; not for `hit_ratio_share`."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One endpoint as configured: who serves it, how large its tiers are, how it is routed."""

    namespace: str
    """Namespace of the endpoint."""
    endpoint: str
    """Name of the endpoint, as the engines' settings name it."""
    model: str
    """Served name of the model."""
    replicas: int
    """How many replicas serve it."""
    routing: RoutingPolicy = RoutingPolicy.UNKNOWN
    """How requests are spread over the replicas."""
    tiers: tuple[TierConfig, ...] = ()
    """The tiers it has, each with its size."""
    bytes_per_token: float | None = None
    """KV bytes a token in every tier; none: measured from the tiers' own readings, else the model's."""
    model_bytes_per_token: float | None = None
    """KV bytes a token computed from the model's own configuration: used where none were measured."""
    objective: Objective = field(default_factory=Objective)
    """What sizing aims at."""
    tensor_parallel: int = 1
    """GPUs that share one replica's model; in-process LMCache sizes L1 for each of them."""
    worker_memory_bytes: float | None = None
    """Memory requested for one replica's engine container; none: not known."""
    l2_workers: int | None = None
    """Workers the L2 pool is spread over; none: not known."""
    l1_keeps_loads: bool | None = None
    """Whether L1 keeps what it loads from L2 (LMCache server: l2-prefetch-policy retain); none: inferred."""

    wiring: Wiring | None = None
    """How it is wired up in Kubernetes; none: not known, so patches are described instead of written."""

    def tier(self, tier: Tier) -> TierConfig | None:
        """The configuration of one tier, None where the deployment has no such tier."""
        return next((config for config in self.tiers if config.tier is tier), None)


@dataclass(frozen=True, slots=True)
class DeploymentSince:
    """A configuration of an endpoint, and when it was first seen in force."""

    since_unix_seconds: float
    """When it was first seen; in force until the next one's."""
    deployment: Deployment
    """The configuration."""
