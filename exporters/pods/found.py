"""From the pods of a node to what an exporter reads of each: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from exporters.pods.addresses import bracketed, is_address, page, port_of, reached
from exporters.pods.engine import PROBE, EngineContainer, cache_inside, engine_container, engines_in
from exporters.pods.objects import Container, NodePod
from tierscope.domain.command_line import Options, options_of, words_of
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.settings import ExporterSettings, LmcacheSettings

RECORDS, RECORDS_REPLAY = "tcp://*:5767", "tcp://*:5867"
"""Addresses of the probe in an LMCache server unless told otherwise."""
SERVER_PAGE_PORT = 8080
HASH = re.compile(r"-[a-z0-9]{5,10}$")
"""What a Deployment adds to its name for a set of pods."""


@dataclass(frozen=True, slots=True)
class FoundPod:
    """One pod with engines or caches in it. `part` has its sources and nothing else.

    `engine` is the container of its engine, None for a pod of an LMCache server alone.
    """

    uid: str
    name: str
    part: ExporterSettings
    engine: EngineContainer | None


def found_pods(pods: Iterable[NodePod], discovery: PodDiscovery) -> Sequence[FoundPod]:
    """Every running pod with something to read, by name; a pod's part depends on nothing but the pod."""
    found = []
    for pod in pods:
        if pod.status.phase == "Running" and pod.status.pod_ip and is_address(pod.status.pod_ip):
            one = _found(pod, bracketed(pod.status.pod_ip), discovery)
            if one is not None:
                found.append(one)
    return sorted(found, key=lambda one: one.name)


def server_of(one: FoundPod, all_of_node: Sequence[FoundPod]) -> str | None:
    """The LMCache server that a pod's engine loads from: its own pod's, else the only one of the node."""
    if one.engine is None or not one.engine.loads_from_server:
        return None
    if one.part.lmcache:
        return one.part.lmcache[0].name
    servers = [server.name for other in all_of_node for server in other.part.lmcache]
    return servers[0] if len(servers) == 1 else None


def _found(pod: NodePod, host: str, discovery: PodDiscovery) -> FoundPod | None:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    servers = tuple(
        server for one in pod.spec.containers if (server := _server(one, name, host, discovery)) is not None
    )[:1]
    rest = tuple(one for one in pod.spec.containers if not _is_server(one))
    engine = engine_container(rest, host)
    if engine is None and not servers:
        return None
    if engine is None:
        return FoundPod(pod.metadata.uid, name, ExporterSettings(lmcache=servers), None)
    inside = cache_inside(engine, name, discovery.pool, pool_is_scanned=discovery.pool_is_scanned)
    engines = engines_in(engine, pod.metadata.namespace, endpoint_of(pod, discovery), pod.metadata.name)
    if inside is not None:
        engines = tuple(replace(one, lmcache=inside.name) for one in engines)
    part = ExporterSettings(
        engines=engines, lmcache=servers, lmcache_in_process=() if inside is None else (inside,)
    )
    return FoundPod(pod.metadata.uid, name, part, engine)


def endpoint_of(pod: NodePod, discovery: PodDiscovery) -> str:
    """The endpoint a pod serves: its label's, else its Deployment's or StatefulSet's name, else its own."""
    labelled = (pod.metadata.labels or {}).get(discovery.endpoint_label)
    if labelled:
        return labelled
    for owner in pod.metadata.owner_references or ():
        if owner.controller:
            return HASH.sub("", owner.name) if owner.kind == "ReplicaSet" else owner.name
    return pod.metadata.name


def _words(container: Container) -> list[str]:
    return words_of(container.command or (), container.args or ())


def _is_server(container: Container) -> bool:
    """Whether a container runs `lmcache server`, which has nothing of an engine's."""
    words = _words(container)
    return any("lmcache" in word for word in (*words, container.image)) and "server" in words


def _server(container: Container, name: str, host: str, discovery: PodDiscovery) -> LmcacheSettings | None:
    if not _is_server(container):
        return None
    options = options_of(_words(container))
    records, replay = _records(options)
    return LmcacheSettings(
        name=name,
        url=page(host, port_of(options.whole("http-port")) or SERVER_PAGE_PORT),
        pool=discovery.pool,
        records_endpoint=reached(records, host),
        records_replay_endpoint=reached(replay, host),
        pool_is_scanned=discovery.pool_is_scanned,
    )


def _records(options: Options) -> tuple[str | None, str | None]:
    module = options.document("server-module")
    if not str(module.get("module_path", "")).startswith(PROBE):
        return None, None
    config = module.get("config")
    told = config if isinstance(config, dict) else {}
    if told.get("enabled") is False:
        return None, None
    return str(told.get("endpoint") or RECORDS), str(told.get("replay_endpoint") or RECORDS_REPLAY)
