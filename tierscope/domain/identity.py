"""Names for the running things we read: engines, and the sources that speak for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"
"""Letters and digits that Kubernetes draws names from."""
_POD = re.compile(rf"(.+?)-(?:(?:{_DRAWN}{{6,10}}-)?{_DRAWN}{{5}}|\d{{1,4}})")
"""A pod of a Deployment or DaemonSet, or the numbered one of a StatefulSet; its workload's name first."""


@dataclass(frozen=True, slots=True, order=True)
class EngineId:
    """One vLLM engine core: a data-parallel rank of a replica of an endpoint.

    Each rank has its own L0, KV-event publisher and hook stream. `replica` is the pod's name.
    """

    namespace: str
    endpoint: str
    replica: str
    rank: int = 0

    @property
    def workload(self) -> str:
        """The Deployment or StatefulSet of the replica, by the pod's name; empty where that does not tell."""
        pod = _POD.fullmatch(self.replica)
        return "" if pod is None else pod[1]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.endpoint}/{self.replica}/{self.rank}"

    @classmethod
    def parse(cls, text: str) -> EngineId:
        """Read back what `str()` wrote; raises ValueError for anything else."""
        namespace, endpoint, replica, rank = text.split("/")
        return cls(namespace, endpoint, replica, int(rank))


class SourceKind(StrEnum):
    """What a source speaks."""

    VLLM_METRICS = "vllm_metrics"
    VLLM_EVENTS = "vllm_events"
    VLLM_HOOK = "vllm_hook"
    LMCACHE_METRICS = "lmcache_metrics"
    LMCACHE_RECORDS = "lmcache_records"
    """The record stream of the probe in an LMCache server."""
    LMCACHE_COORDINATOR = "lmcache_coordinator"
    """What an LMCache server tells its coordinator, for which it takes us."""
    LMCACHE_CONTROLLER = "lmcache_controller"
    """What LMCache inside an engine tells its controller, for which it takes us."""
    CURVINE_MASTER = "curvine_master"
    CURVINE_WORKERS = "curvine_workers"
    """Every worker of a pool; its units are the workers."""
    CURVINE_FUSE = "curvine_fuse"
    """One FUSE client; its owner is the pool and the client's address."""
    POOL_MOUNT = "pool_mount"
    """The directory a pool is mounted at, read file name by file name."""
    MANAGED_TIER = "managed_tier"
    """The memory that HyperPod's own tier holds back on a node; its owner is the file."""
    FEED = "feed"
    """The stream from an exporter to a collector, which can lose batches like any other."""


@dataclass(frozen=True, slots=True, order=True)
class SourceId:
    """One running thing we read, by what it speaks and who it belongs to.

    `owner` is an engine's `str()`, an LMCache server's name, a pool's name (a FUSE client's: the pool's and
    its address) or an exporter's name.
    """

    kind: SourceKind
    owner: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.owner}"

    @classmethod
    def parse(cls, text: str) -> SourceId:
        """Read back what `str()` wrote; raises ValueError for anything else."""
        kind, _, owner = text.partition(":")
        return cls(SourceKind(kind), owner)
