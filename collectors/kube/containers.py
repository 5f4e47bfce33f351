"""The engine's container of a pod: its command line, its variables, its memory, and LMCache inside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from collectors.kube.cache_config import FILE_VARIABLE, CacheConfig, cache_config
from collectors.kube.engine_args import EngineArguments, engine_arguments
from collectors.kube.objects import Container, Endpoint, PodSpec, Resources, Variable
from collectors.kube.quantity import quantity
from collectors.kube.state import Cluster
from tierscope.domain.command_line import words_of

NODE_CONNECTOR = "LMCacheMPConnector"
"""vLLM's connector to LMCache's multiprocess server; all other LMCache connectors run inside the engine."""
IN_ENGINE = "LMCacheConnector"


@dataclass(frozen=True, slots=True)
class Engine:
    """An endpoint's engine as it runs, or as declared while nothing runs. `cache`: LMCache inside it."""

    arguments: EngineArguments
    environment: dict[str, str]
    memory_bytes: float | None
    cache: CacheConfig | None
    image: str = ""

    @property
    def uses_node_server(self) -> bool:
        """Whether L1 is a server of the node."""
        return self.arguments.connector == NODE_CONNECTOR


def engine_of(cluster: Cluster, endpoint: Endpoint, pod: PodSpec) -> Engine:
    """The engine in a pod; what the pod does not have is read from the resource."""
    declared = _declared(endpoint)
    container = engine_container(pod) or declared
    words = words_of(container.command, container.args) or words_of(declared.command, declared.args)
    arguments = engine_arguments(words)
    environment = _values(container.env) if container.env else _values(declared.env)
    has_cache = _has_cache(endpoint, arguments, environment)
    file = environment.get(FILE_VARIABLE) or _config_file(endpoint)
    text = _file_text(cluster, endpoint.metadata.namespace, pod, container, file) if file else None
    return Engine(
        arguments,
        environment,
        memory_bytes(container.resources) or memory_bytes(declared.resources),
        cache_config(environment, text) if has_cache else None,
        container.image or declared.image,
    )


def memory_bytes(resources: Resources) -> float | None:
    """Memory a container asks for; its limit where it asks for none, as Kubernetes does."""
    for part in (resources.requests, resources.limits):
        if part is not None and (found := quantity(part.get("memory"))) is not None:
            return found
    return None


def engine_container(pod: PodSpec) -> Container | None:
    """The container with GPUs; of those that have none, the first whose command line speaks of vLLM."""
    for container in pod.containers:
        wanted = {**(container.resources.requests or {}), **(container.resources.limits or {})}
        if any(name.endswith("/gpu") or "neuron" in name for name in wanted):
            return container
    return next(
        (one for one in pod.containers if "vllm" in " ".join([*one.command, *one.args, one.image])), None
    )


def _declared(endpoint: Endpoint) -> Container:
    worker = endpoint.spec.worker
    if worker is None:
        return Container(env=endpoint.spec.environment_variables)
    return Container(
        image=worker.image,
        command=worker.command,
        args=worker.args,
        env=worker.environment_variables,
        resources=worker.resources,
    )


def _values(variables: Iterable[Variable]) -> dict[str, str]:
    """Variables whose values stand in the object; of a name that is there twice the last one counts."""
    return {variable.name: variable.value for variable in variables if variable.value is not None}


def _config_file(endpoint: Endpoint) -> str | None:
    cache = endpoint.spec.kv_cache_spec
    return cache.cache_config_file if cache else None


def _has_cache(endpoint: Endpoint, arguments: EngineArguments, environment: dict[str, str]) -> bool:
    """Whether LMCache runs inside the engine: told by its connector, by the resource, or by its variables."""
    if arguments.connector is not None:
        return arguments.connector.startswith(IN_ENGINE)
    cache = endpoint.spec.kv_cache_spec
    if cache is not None:
        return cache.enable_l1_cache is not False or cache.enable_l2_cache is True
    return any(name.startswith("LMCACHE_") for name in environment)


def _file_text(cluster: Cluster, namespace: str, pod: PodSpec, container: Container, path: str) -> str | None:
    """A configuration file of a container, where it comes from a ConfigMap."""
    config_maps = {v.name: v.config_map.name for v in pod.volumes if v.config_map is not None}
    wanted = PurePosixPath(path)
    for mount in container.volume_mounts:
        name = config_maps.get(mount.name)
        if name is None or not wanted.is_relative_to(mount.mount_path):
            continue
        found = cluster.config_map(namespace, name)
        # A mount of one file (subPath) is that file; else the path below the mount is the key.
        key = str(wanted.relative_to(mount.mount_path)) if mount.mount_path != path else wanted.name
        if found is not None and key in found.data:
            return found.data[key]
    return None
