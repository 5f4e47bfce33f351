"""Memory of the nodes an endpoint runs on: what they have to give, and what others there ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from collectors.kube.containers import Engine, memory_bytes
from collectors.kube.objects import Pod
from collectors.kube.quantity import quantity
from collectors.kube.state import Cluster

SPARE_RATIO = 0.03
"""Share of a node's memory left free: page cache, and what processes take beyond what they ask for."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The node with the least room for an endpoint. None where it is not known.

    `own_bytes` is what one replica asks for, `other_bytes` what all other pods of that node do.
    """

    node_names: tuple[str, ...] = ()
    replicas: int = 1
    allocatable_bytes: float | None = None
    own_bytes: float | None = None
    other_bytes: float | None = None

    def most_bytes_beside(self, l1_bytes: float) -> float | None:
        """The most that L1 of one replica may take, where `l1_bytes` are what it takes now.

        What a replica asks for beyond its L1 stays as it is. Pods without requests count as nothing.
        """
        if self.allocatable_bytes is None or self.own_bytes is None or self.other_bytes is None:
            return None
        engine = max(self.own_bytes - l1_bytes, 0.0)
        room = (1 - SPARE_RATIO) * self.allocatable_bytes - self.other_bytes
        return max(room / self.replicas - engine, 0.0)


def memory_of(cluster: Cluster, pods: Iterable[Pod], engine: Engine) -> NodeMemory:
    """The node with the least room a replica, among those that an endpoint's pods run on."""
    own = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    replicas = Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)
    found = [
        NodeMemory(
            tuple(sorted(replicas)),
            count,
            allocatable,
            engine.memory_bytes,
            sum(_asked(pod) for pod in cluster.pods if _is_beside(pod, name, own)),
        )
        for name, count in replicas.items()
        if (node := cluster.node(name)) is not None
        and (allocatable := quantity(node.status.allocatable.get("memory"))) is not None
    ]
    return min(found, key=_room, default=NodeMemory(tuple(sorted(replicas))))


def _room(memory: NodeMemory) -> float:
    return ((memory.allocatable_bytes or 0.0) - (memory.other_bytes or 0.0)) / memory.replicas


def _is_beside(pod: Pod, node: str, own: set[tuple[str, str]]) -> bool:
    ended = pod.status.phase in {"Succeeded", "Failed"}
    return not ended and pod.spec.node_name == node and (pod.metadata.namespace, pod.metadata.name) not in own


def _asked(pod: Pod) -> float:
    return sum(memory_bytes(container.resources) or 0.0 for container in pod.spec.containers)
