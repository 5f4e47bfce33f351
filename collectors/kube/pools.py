"""The Curvine cluster behind an endpoint: its workers' StatefulSet, and what its configuration says of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from collectors.kube.objects import PodSpec, StorageClass, Workload
from collectors.kube.state import Cluster
from tierscope.domain.command_line import number_of
from tierscope.domain.wiring import DataDirectory, PoolWiring

WORKERS = re.compile(r"(^|-)curvine-worker$")
"""The chart names them `curvine-worker`, with the release's name before it where that is another."""
DIRECTORY = re.compile(r"\s*(?:\[(?P<kind>[A-Za-z]+)(?::(?P<size>[0-9.]+\s*[A-Za-z]*))?\])?(?P<path>.+)")
SIZE = re.compile(r"([0-9.]+)\s*([A-Za-z]*)")
DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)?")
POWERS = ("", "k", "m", "g", "t", "p")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


PROVISIONER = "curvine"


def pool_of(cluster: Cluster, namespace: str, pods: PodSpec) -> PoolWiring | None:
    """The Curvine cluster whose claim pods mount; the only one there is where nothing tells which."""
    there = [_pool(cluster, workers) for workers in cluster.stateful_sets if _is_curvine(workers)]
    by = _storage_class(cluster, namespace, pods)
    if by is not None:
        masters = by.parameters.get("master-addrs", "")
        named = [pool for pool in there if f".{pool.namespace}" in masters]
        there = named or there
    if len(there) != 1:
        return None
    return there[0] if by is None else _with_lifetime(there[0], by)


def _storage_class(cluster: Cluster, namespace: str, pods: PodSpec) -> StorageClass | None:
    """The class of the first claim among the pods' volumes that Curvine provides."""
    for volume in pods.volumes:
        name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else None
        claim = cluster.claim(namespace, name) if name else None
        found = cluster.storage_class(claim.spec.storage_class_name or "") if claim else None
        if found is not None and found.provisioner == PROVISIONER:
            return found
    return None


def _with_lifetime(pool: PoolWiring, by: StorageClass) -> PoolWiring:
    """How long files stay, as the class says where it does."""
    action, age = by.parameters.get("client.ttl-action"), by.parameters.get("client.ttl-ms")
    return replace(
        pool,
        ttl_action=pool.ttl_action if action is None else action.lower(),
        ttl_seconds=pool.ttl_seconds if age is None else duration_seconds(age),
    )


def _is_curvine(workload: Workload) -> bool:
    return WORKERS.search(workload.metadata.name) is not None


def _pool(cluster: Cluster, workers: Workload) -> PoolWiring:
    told = next(_configurations(cluster, workers), {})
    client = _section(told, "client")
    directories = _section(told, "worker").get("data_dir")
    action = client.get("ttl_action")
    return PoolWiring(
        namespace=workers.metadata.namespace,
        name=workers.metadata.name,
        workers=workers.spec.replicas,
        directories=tuple(map(directory, directories)) if isinstance(directories, list) else (),
        ttl_action=str(action).lower() if action is not None else None,
        ttl_seconds=duration_seconds(client.get("ttl_ms")),
    )


def _configurations(cluster: Cluster, workers: Workload) -> Iterator[Mapping[str, object]]:
    """TOML files of the ConfigMaps that the workers mount."""
    mounted = {v.config_map.name for v in workers.spec.template.spec.volumes if v.config_map is not None}
    for config in cluster.config_maps(workers.metadata.namespace):
        if config.metadata.name not in mounted:
            continue
        for name, text in config.data.items():
            if name.endswith(".toml"):
                try:
                    yield tomllib.loads(text)
                except (ValueError, RecursionError):
                    continue  # a template that is filled in at start, or brackets without end


def directory(text: object) -> DataDirectory:
    """One entry of `worker.data_dir`.

    >>> directory("[SSD:100GB]/data/one")
    DataDirectory(name='', size_bytes=107374182400.0, path='/data/one')
    """
    found = DIRECTORY.fullmatch(str(text))
    if found is None:
        return DataDirectory("", None, str(text))
    size = size_bytes(found["size"]) if found["size"] else None
    return DataDirectory("", size or None, found["path"].strip())


def size_bytes(text: str) -> float | None:
    """A size as Curvine writes it, in binary units whatever they are called; None if it is none.

    >>> size_bytes("100GB"), size_bytes("1.5TiB"), size_bytes("lots"), size_bytes("1.5.2GB")
    (107374182400.0, 1649267441664.0, None, None)
    """
    found = SIZE.fullmatch(text.strip())
    unit = found[2].lower().removesuffix("b").removesuffix("i") if found else ""
    number = number_of(found[1]) if found is not None else None
    if number is None or unit not in POWERS:
        return None
    return number * 1024.0 ** POWERS.index(unit)


def duration_seconds(value: object) -> float | None:
    """`client.ttl_ms`: milliseconds, or a number with a unit; None for none and for 0, which both mean never.

    >>> duration_seconds("7d"), duration_seconds(60000), duration_seconds(0)
    (604800.0, 60.0, None)
    """
    found = DURATION.fullmatch(str(value).strip()) if value is not None else None
    number = number_of(found[1]) if found is not None else None
    if found is None or number is None:
        return None
    return number * SECONDS[found[2] or "ms"] or None


def _section(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    section = document.get(name)
    return section if isinstance(section, Mapping) else {}
