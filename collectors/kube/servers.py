"""LMCache's multiprocess servers: one a node, with L1 for every engine on it."""

from __future__ import annotations

from collections.abc import Collection

from collectors.kube.objects import Container
from collectors.kube.state import Cluster
from tierscope.domain.command_line import options_of, words_of
from tierscope.domain.units import GIB

SIZE_OPTION = "l1-size-gb"
"""Its one size option, in what it calls GB, which are GiB."""


def node_cache_bytes(cluster: Cluster, nodes: Collection[str]) -> float | None:
    """L1 of the smallest server on these nodes; None where there is none."""
    sizes = [
        size
        for pod in cluster.pods
        if pod.spec.node_name in nodes
        for container in pod.spec.containers
        if (size := _size_bytes(container)) is not None
    ]
    return min(sizes, default=None)


def _size_bytes(container: Container) -> float | None:
    words = words_of(container.command, container.args)
    if not any("lmcache" in word for word in [*words, container.image]):
        return None
    gibibytes = options_of(words).number(SIZE_OPTION)
    return None if gibibytes is None else gibibytes * GIB
