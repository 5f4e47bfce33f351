"""From objects of a cluster to the deployments in force: pure, so that watches and files give the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collectors.kube.cache_config import CacheConfig
from collectors.kube.containers import Engine, engine_of
from collectors.kube.kinds import ENDPOINT, JUMPSTART
from collectors.kube.memory import NodeMemory, memory_of
from collectors.kube.objects import Endpoint, EndpointSpec, Pod, PodSpec, Workload
from collectors.kube.pools import pool_of
from collectors.kube.servers import node_cache_bytes
from collectors.kube.state import Cluster
from tierscope.domain.deployment import Deployment, Objective, RoutingPolicy, TierConfig
from tierscope.domain.kv_size import ModelShape, kv_size
from tierscope.domain.tiers import Tier
from tierscope.domain.wiring import CacheScope, GatewayWiring, ResourceKind, ScorerWeight, Wiring

RANDOM_SEED = "random"
"""Stands for a pod without `PYTHONHASHSEED`: its hashes are its own."""


def deployments(
    cluster: Cluster,
    *,
    shapes: Mapping[str, ModelShape] | None = None,
    objective: Objective | None = None,
) -> tuple[Deployment, ...]:
    """Every endpoint that a custom resource declares, as it runs, by namespace and name.

    `shapes` are those of models whose configuration is known, by served name; they give the bytes a token
    for as long as none were measured. Where the operator has rendered nothing yet, an endpoint is what its
    resource says.
    """
    found = (
        _deployment(cluster, kind, endpoint, shapes or {}, objective or Objective())
        for kind, of in (
            (ResourceKind.INFERENCE_ENDPOINT_CONFIG, ENDPOINT),
            (ResourceKind.JUMPSTART_MODEL, JUMPSTART),
        )
        for endpoint in cluster.endpoints(of)
    )
    return tuple(sorted(found, key=lambda one: (one.namespace, one.endpoint)))


@dataclass(frozen=True, slots=True)
class _Running:
    """One endpoint with everything that runs for it."""

    cluster: Cluster
    kind: ResourceKind
    endpoint: Endpoint
    pods: tuple[Pod, ...]
    template: PodSpec
    engine: Engine

    @property
    def spec(self) -> EndpointSpec:
        return self.endpoint.spec

    @property
    def cache(self) -> CacheConfig | None:
        """LMCache inside the engine, where there is one."""
        return self.engine.cache


def _deployment(
    cluster: Cluster,
    kind: ResourceKind,
    endpoint: Endpoint,
    shapes: Mapping[str, ModelShape],
    objective: Objective,
) -> Deployment:
    workload = _workload(cluster, endpoint, kind)
    pods = _pods(cluster, workload)
    template = pods[0].spec if pods else workload.spec.template.spec if workload else PodSpec()
    of = _Running(cluster, kind, endpoint, pods, template, engine_of(cluster, endpoint, template))
    memory = memory_of(cluster, pods, of.engine)
    wiring = _wiring(of, memory)
    model = of.engine.arguments.served_name or of.spec.model_name or of.spec.model.model_id
    shape = shapes.get(model)
    ranks = of.engine.arguments.ranks
    size = kv_size(shape, of.engine.arguments.cache_dtype, ranks).stored if shape else None
    return Deployment(
        namespace=endpoint.metadata.namespace,
        endpoint=endpoint.metadata.name,
        model=model,
        replicas=max(workload.spec.replicas if workload else endpoint.spec.replicas, 1),
        routing=_routing(of.spec),
        tiers=tuple(_tiers(of, wiring, memory)),
        model_bytes_per_token=size,
        objective=objective,
        tensor_parallel=ranks,
        worker_memory_bytes=of.engine.memory_bytes,
        l2_workers=wiring.pool.workers if wiring.pool else None,
        l1_keeps_loads=True if of.cache is not None and of.cache.local_bytes else None,
        wiring=wiring,
    )


def _workload(cluster: Cluster, endpoint: Endpoint, kind: ResourceKind) -> Workload | None:
    """The Deployment that the operator rendered: it belongs to the resource, or has its name."""
    here = [one for one in cluster.deployments if one.metadata.namespace == endpoint.metadata.namespace]
    for one in here:
        if any(
            owner.kind == kind.value and owner.name == endpoint.metadata.name
            for owner in one.metadata.owner_references
        ):
            return one
    return next((one for one in here if one.metadata.name == endpoint.metadata.name), None)


def _pods(cluster: Cluster, workload: Workload | None) -> tuple[Pod, ...]:
    """Pods of a workload that are not at their end."""
    wanted = workload.spec.selector.match_labels if workload else {}
    if workload is None or not wanted:
        return ()
    return tuple(
        pod
        for pod in cluster.pods
        if pod.metadata.namespace == workload.metadata.namespace
        and wanted.items() <= pod.metadata.labels.items()
        and pod.status.phase not in {"Succeeded", "Failed"}
    )


def _routing(spec: EndpointSpec) -> RoutingPolicy:
    """Gateway, strategy or neither; both cannot be in force, and the gateway's switch is the newer one."""
    if spec.inference_gateway is not None and spec.inference_gateway.enabled:
        return RoutingPolicy.GATEWAY
    routing = spec.intelligent_routing_spec
    if routing is None or not routing.enabled:
        return RoutingPolicy.NONE
    known = {policy.value: policy for policy in RoutingPolicy}
    return known.get(routing.routing_strategy or RoutingPolicy.PREFIXAWARE.value, RoutingPolicy.UNKNOWN)


def _tiers(of: _Running, wiring: Wiring, memory: NodeMemory) -> Iterator[TierConfig]:
    """L1 of one replica (or of the node's server) and the whole pool; L0 is told by the engines alone."""
    ranks = of.engine.arguments.ranks
    if wiring.l1_scope is CacheScope.NODE:
        server = node_cache_bytes(of.cluster, memory.node_names)
        if server:
            yield TierConfig(Tier.L1, server)
    elif of.cache is not None and of.cache.local_bytes and wiring.l1_is_on is not False:
        size = of.cache.local_bytes * ranks
        yield TierConfig(Tier.L1, size, memory.most_bytes_beside(size))
    if wiring.l2_url is not None and wiring.pool is not None and wiring.pool.capacity_bytes:
        yield TierConfig(Tier.L2, wiring.pool.capacity_bytes)


def _wiring(of: _Running, memory: NodeMemory) -> Wiring:
    spec, engine = of.spec, of.engine
    cache, routing = spec.kv_cache_spec, spec.intelligent_routing_spec
    declared = spec.worker.environment_variables if spec.worker else spec.environment_variables
    resources = spec.worker.resources if spec.worker else None
    parts = {"requests": resources and resources.requests, "limits": resources and resources.limits}
    scope = CacheScope.NODE if engine.uses_node_server else CacheScope.RANK
    return Wiring(
        kind=of.kind,
        environment=tuple(variable.name for variable in declared),
        engine_args=spec.worker.args if spec.worker else (),
        engine_image=engine.image or None,
        resource_parts=tuple(name for name, part in parts.items() if part is not None),
        invocation_path=spec.invocation_endpoint,
        routing_is_switched_on=None if routing is None else routing.enabled,
        cache_config_file=cache.cache_config_file if cache else None,
        chunk_tokens=engine.cache.chunk_tokens if engine.cache else None,
        l1_scope=scope,
        l1_is_on=None if cache is None or cache.enable_l1_cache is None else cache.enable_l1_cache,
        l2_is_on=cache.enable_l2_cache if cache else None,
        l2_url=engine.cache.remote_url if engine.cache else None,
        hash_seeds=tuple(sorted(_hash_seeds(of))),
        cache_dtype=engine.arguments.cache_dtype,
        gpu_memory_ratio=engine.arguments.gpu_memory_ratio,
        max_model_len=engine.arguments.max_model_len,
        instance_types=_instance_types(spec),
        node_memory_bytes=memory.allocatable_bytes,
        replicas_a_node=max(Counter(pod.spec.node_name for pod in of.pods).values(), default=1),
        other_memory_bytes=memory.other_bytes,
        pool=pool_of(of.cluster, of.endpoint.metadata.namespace, of.template),
        gateway=_gateway(of),
    )


def _hash_seeds(of: _Running) -> set[str]:
    """`PYTHONHASHSEED` of every pod's engine, of the declared one while none runs."""
    if not of.pods:
        return {of.engine.environment.get("PYTHONHASHSEED", RANDOM_SEED)}
    return {
        engine_of(of.cluster, of.endpoint, pod.spec).environment.get("PYTHONHASHSEED", RANDOM_SEED)
        for pod in of.pods
    }


def _instance_types(spec: EndpointSpec) -> tuple[str, ...]:
    one = spec.instance_type or spec.server.instance_type
    return spec.instance_types or ((one,) if one else ())


def _gateway(of: _Running) -> GatewayWiring | None:
    """The gateway's scheduler for the endpoint's model, where its gateway is in force."""
    switch = of.spec.inference_gateway
    if switch is None or not switch.enabled:
        return None
    for gateway in of.cluster.gateways:
        if switch.name is not None and gateway.metadata.name != switch.name:
            continue
        for position, scheduler in enumerate(gateway.spec.schedulers):
            if scheduler.model_name in {of.spec.model_name, of.engine.arguments.served_name}:
                weights = tuple(ScorerWeight(*weight) for weight in sorted(scheduler.weights.items()))
                return GatewayWiring(gateway.metadata.namespace, gateway.metadata.name, position, weights)
    return None
