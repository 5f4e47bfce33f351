"""How an endpoint's tiers are wired up where it runs: what advice has to touch, and what it has to mind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ResourceKind(StrEnum):
    """The custom resource an endpoint is declared by."""

    INFERENCE_ENDPOINT_CONFIG = "InferenceEndpointConfig"
    JUMPSTART_MODEL = "JumpStartModel"


class CacheScope(StrEnum):
    """What the configured size of L1 is the size of."""

    RANK = "rank"
    """Each GPU's worker process takes it for itself: LMCache inside the engine."""
    NODE = "node"
    """One server takes it for all pods of its node: LMCache's multiprocess server."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """One directory of every worker of a pool, as its Helm values list it."""

    name: str
    """Name of the entry; empty where it has none."""
    size_bytes: float | None = None
    """Size that is set for it; none: the whole file system."""
    path: str = ""
    """Where it is mounted in the worker."""


@dataclass(frozen=True, slots=True)
class PoolWiring:
    """The Curvine cluster behind an endpoint's L2."""

    namespace: str
    """Namespace of its workers."""
    name: str
    """Name of the workers' StatefulSet."""
    workers: int
    """How many workers it is told to have."""
    directories: tuple[DataDirectory, ...] = ()
    """Directories of each worker."""
    ttl_action: str | None = None
    """What happens to old files (`client.ttl_action`); none: not set, so they stay for ever."""
    ttl_seconds: float | None = None
    """Age at which it happens (`client.ttl_ms`); none: not set."""

    @property
    def capacity_bytes(self) -> float | None:
        """Workers times the sum of their directories; none where a directory has no size of its own."""
        sizes = [directory.size_bytes for directory in self.directories]
        known = [size for size in sizes if size is not None]
        return self.workers * sum(known) if known and len(known) == len(sizes) else None


@dataclass(frozen=True, slots=True)
class ScorerWeight:
    """How much one score counts where a gateway chooses the replica."""

    scorer: str
    """Name of the score: `queue`, `kvCache`, `prefix` and others."""
    weight: float
    """How much it counts."""


@dataclass(frozen=True, slots=True)
class GatewayWiring:
    """The gateway in front of an endpoint, and its scheduler for the endpoint's model."""

    namespace: str
    """Namespace of the InferenceGatewayConfig."""
    name: str
    """Name of the InferenceGatewayConfig."""
    position: int
    """Place of the endpoint's scheduler in `spec.schedulers`: a patch names it by position."""
    weights: tuple[ScorerWeight, ...] = ()
    """Weights that are set; empty: they stand in a ConfigMap or are the defaults."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """An endpoint as Kubernetes has it, beyond sizes: its custom resource, and what was made of it."""

    kind: ResourceKind = ResourceKind.INFERENCE_ENDPOINT_CONFIG
    """The kind of the resource to patch."""
    environment: tuple[str, ...] = ()
    """Names of the resource's own variables in its order: a patch names them by position."""
    engine_args: tuple[str, ...] = ()
    """The engine's arguments in the resource."""
    engine_image: str | None = None
    """Image of the running engine; its tag may tell the engine's release."""
    resource_parts: tuple[str, ...] = ()
    """Which of `requests` and `limits` the worker's resources have."""
    invocation_path: str | None = None
    """Path that requests are sent to; `kvaware` needs one that ends in completions and is no chat."""
    routing_is_switched_on: bool | None = None
    """Whether the resource has a router (`intelligentRoutingSpec.enabled`); that cannot be changed later."""
    cache_config_file: str | None = None
    """The cache's configuration file in the pod; its variables go before it."""
    chunk_tokens: int | None = None
    """Tokens of a chunk that the cache is told to use."""
    l1_scope: CacheScope = CacheScope.RANK
    """What the configured size of L1 is the size of."""
    l1_is_on: bool | None = None
    """Whether the resource switches L1 on."""
    l2_is_on: bool | None = None
    """Whether the resource switches L2 on."""
    l2_url: str | None = None
    """Where running pods store L2 (`LMCACHE_REMOTE_URL`); none: they have no L2."""
    hash_seeds: tuple[str, ...] = ()
    """Every different `PYTHONHASHSEED` of running pods; `random` stands for a pod that has none."""
    cache_dtype: str | None = None
    """The engine's `--kv-cache-dtype`; none: the model's own."""
    gpu_memory_ratio: float | None = None
    """The engine's `--gpu-memory-utilization`; none: its default."""
    max_model_len: int | None = None
    """The engine's `--max-model-len`; none: the model's own."""
    instance_types: tuple[str, ...] = ()
    """Instance types the endpoint may run on, the preferred one first."""
    node_memory_bytes: float | None = None
    """Allocatable memory of the smallest node it runs on."""
    replicas_a_node: int = 1
    """Most of its replicas on one node."""
    other_memory_bytes: float | None = None
    """Memory that is requested on that node by everything but this endpoint's engines."""
    pool: PoolWiring | None = None
    """The pool behind L2, where it was found."""
    gateway: GatewayWiring | None = None
    """The gateway that routes it, where one does and was found."""
