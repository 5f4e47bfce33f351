"""What is known of the cluster: objects by kind and name, from watches or from files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import msgspec

from collectors.kube.kinds import KINDS, Kind
from collectors.kube.objects import (
    Claim,
    ConfigMap,
    Endpoint,
    Gateway,
    Kube,
    Metadata,
    Node,
    Pod,
    StorageClass,
    Workload,
)
from tierscope.domain.errors import BadInput

Key = tuple[str, str]
"""Namespace and name."""

BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything that is read of a cluster at one time."""

    objects: Mapping[str, Mapping[Key, Kube]] = field(default_factory=dict)

    def endpoints(self, kind: Kind) -> tuple[Endpoint, ...]:
        """Endpoints declared by one kind of resource."""
        return cast("tuple[Endpoint, ...]", self._all(kind.name))

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        """Every gateway."""
        return cast("tuple[Gateway, ...]", self._all("InferenceGatewayConfig"))

    @property
    def deployments(self) -> tuple[Workload, ...]:
        """Every Deployment."""
        return cast("tuple[Workload, ...]", self._all("Deployment"))

    @property
    def stateful_sets(self) -> tuple[Workload, ...]:
        """Every StatefulSet."""
        return cast("tuple[Workload, ...]", self._all("StatefulSet"))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Every pod."""
        return cast("tuple[Pod, ...]", self._all("Pod"))

    def claim(self, namespace: str, name: str) -> Claim | None:
        """One claim."""
        return cast("Claim | None", self.objects.get("PersistentVolumeClaim", {}).get((namespace, name)))

    def storage_class(self, name: str) -> StorageClass | None:
        """One storage class."""
        return cast("StorageClass | None", self.objects.get("StorageClass", {}).get(("", name)))

    def node(self, name: str) -> Node | None:
        """One node."""
        return cast("Node | None", self.objects.get("Node", {}).get(("", name)))

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """One ConfigMap."""
        return cast("ConfigMap | None", self.objects.get("ConfigMap", {}).get((namespace, name)))

    def config_maps(self, namespace: str) -> tuple[ConfigMap, ...]:
        """Every ConfigMap of a namespace."""
        found = cast("tuple[ConfigMap, ...]", self._all("ConfigMap"))
        return tuple(one for one in found if one.metadata.namespace == namespace)

    def _all(self, kind: str) -> tuple[Kube, ...]:
        return tuple(self.objects.get(kind, {}).values())


def cluster_of(documents: Iterable[object], where: str) -> Cluster:
    """Put together what `kubectl get -o yaml` writes: objects, or lists of them. Raises `BadInput`.

    Kinds we do not know are passed over; an object of a kind we know must be one.
    """
    found: dict[str, dict[Key, Kube]] = {}
    for document in documents:
        for item in _items(document):
            kind = BY_NAME.get(str(item.get("kind")))
            if kind is not None:
                read = read_object(kind, item, where)
                found.setdefault(kind.name, {})[key_of(read)] = read
    return Cluster(found)


def read_object(kind: Kind, item: object, where: str) -> Kube:
    """One object out of its JSON; raises `BadInput` naming the field that is not right."""
    try:
        return msgspec.convert(_without_nulls(item), kind.type)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        # The second is half of a surrogate pair, as JSON may have it; the third brackets without end.
        raise BadInput(
            f"this {kind.name} cannot be read: {error}",
            where=where,
            fix="check it with `kubectl apply --dry-run=server`, and report it if the server takes it",
        ) from error


def metadata_of(item: Kube) -> Metadata:
    """Names and marks of any object."""
    return cast("Metadata", getattr(item, "metadata", Metadata()))


def key_of(item: Kube) -> Key:
    """Namespace and name of an object."""
    metadata = metadata_of(item)
    return metadata.namespace, metadata.name


def _items(document: object) -> list[Mapping[str, object]]:
    if not isinstance(document, Mapping):
        return []
    items = document.get("items")
    if isinstance(items, list):
        return [item for item in items if isinstance(item, Mapping)]
    return [document]


def _without_nulls(value: object) -> object:
    """The same without null fields: to Kubernetes a null and an absent field are one."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value if inner is not None]
    if isinstance(value, str | int | float | bool):
        return value
    return json.loads(json.dumps(value, default=str))  # a date, as YAML reads one
