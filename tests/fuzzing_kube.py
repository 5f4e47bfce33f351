"""Readers of what whoever may make pods and resources in a cluster can write, and what must hold of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from collectors.kube.assemble import deployments
from collectors.kube.client import _document, _event, _mappings
from collectors.kube.state import cluster_of
from exporters.pods.addresses import bracketed
from exporters.pods.found import FoundPod, found_pods, server_of
from exporters.pods.objects import read_pods
from tests.node_pods import EVENTS, HOOK, engine, pod, server
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import BadInput, SourceUnreadable

KUBERNETES = Path(__file__).parent / "fixtures" / "kubernetes"
INSIDE = {**HOOK, "kv_connector": "ObservingLMCacheConnectorV1"}
STORAGE = {"external.module_path": "tierscope_probe.storage", "tierscope": {"endpoint": "tcp://*:5777"}}


def roster(data: bytes) -> None:
    """Pods are found or not; whatever one says, it is read at its own address and at a port there is."""
    try:
        pods = read_pods(data, where="fuzz")
    except SourceUnreadable:
        return
    found = found_pods(pods, PodDiscovery(pool="pool"))
    running = [one for one in pods if one.status.phase == "Running" and one.status.pod_ip]
    assert len(found) <= len(running)
    hosts = {one.metadata.uid: set() for one in running}
    for one in running:
        hosts[one.metadata.uid].add(bracketed(one.status.pod_ip).lower())
    for one in found:
        server_of(one, found)
        for address in _addresses(one):
            authority = address.partition("//")[2].partition("/")[0]
            host, _, port = authority.rpartition(":")
            assert host.lower() in hosts[one.uid], address
            assert 0 < int(port) < 65_536, address


def _addresses(one: FoundPod) -> Iterator[str]:
    for each in one.part.engines:
        yield from filter(None, (
            each.metrics_url, each.events_endpoint, each.events_replay_endpoint, each.hook_endpoint,
            each.hook_replay_endpoint,
        ))  # fmt: skip
    for each in one.part.lmcache:
        yield from filter(None, (each.url, each.records_endpoint, each.records_replay_endpoint))
    for each in one.part.lmcache_in_process:
        yield from (*each.urls, *each.storage_endpoints, *each.storage_replay_endpoints)


def cluster(data: bytes) -> None:
    """A list of objects becomes deployments, or is refused naming the object that is not right."""
    try:
        items = _mappings(_document(data, "fuzz").get("items"))
    except SourceUnreadable:
        return
    for part in ([{"items": items}], *([one] for one in items[:20])):
        try:
            found = deployments(cluster_of(part, "fuzz"))
        except BadInput:
            continue
        assert all(one.replicas >= 1 for one in found)


def watch(data: bytes) -> None:
    """Every line of a watch is an event or refused."""
    for line in data.split(b"\n"):
        try:
            event = _event(line, "fuzz")
            item = event.get("object")
            cluster_of([item], "fuzz")
        except (SourceUnreadable, BadInput):
            continue


@cache
def roster_seeds() -> list[bytes]:
    """Pods of every wiring that is told by their arguments."""
    variables = {
        "LMCACHE_MAX_LOCAL_CPU_SIZE": "8", "LMCACHE_CHUNK_SIZE": "256",
        "LMCACHE_INTERNAL_API_SERVER_ENABLED": "true", "LMCACHE_INTERNAL_API_SERVER_PORT_START": "7000",
        "LMCACHE_EXTRA_CONFIG": json.dumps(STORAGE), "TIERSCOPE_PROBE": "1",
        "TIERSCOPE_PROBE_STORAGE_ENDPOINT": "tcp://0.0.0.0:5790",
    }  # fmt: skip
    shell = {
        "name": "v",
        "image": "vllm",
        "command": ["sh", "-c"],
        "args": ["vllm serve m --port=8001 -dp 2"],
    }
    pods = (
        pod("chat-7d9f8c-x2x4z", engine()),
        pod("chat-0", engine("--port", "8100", "--tensor-parallel-size=2", connector=INSIDE, **variables)),
        pod("chat-1", engine("-dp", "4", events={**EVENTS, "endpoint": "tcp://*:6000"}), server()),
        pod("cache-0", server("--http-port", "8081"), ip="fd00::7"),
        pod("shell-0", shell, labels={"tierscope.io/endpoint": "other"}, phase="Running"),
    )
    objects = yaml.safe_load((KUBERNETES / "support-chat.yaml").read_text("utf-8"))["items"]
    lists = [[one] for one in pods] + [list(pods)]
    lists.append([one for one in objects if one.get("kind") == "Pod"])
    return [json.dumps({"kind": "PodList", "items": one}, default=str).encode() for one in lists]


@cache
def cluster_seeds() -> list[bytes]:
    """The objects of a deployment: all together, and each by itself."""
    objects = json.loads(
        json.dumps(
            yaml.safe_load((KUBERNETES / "support-chat.yaml").read_text("utf-8"))["items"], default=str
        )
    )
    return [json.dumps({"items": part}).encode() for part in (objects, *([one] for one in objects))]


@cache
def watch_seeds() -> list[bytes]:
    """Events of a watch, a bookmark and an error among them."""
    objects = [json.loads(one)["items"][0] for one in cluster_seeds()[1:]]
    events = [{"type": "ADDED", "object": one} for one in objects]
    events.append({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "7"}}})
    events.append({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
    return [b"\n".join(json.dumps(one).encode() for one in events[at:]) for at in range(len(events))]
