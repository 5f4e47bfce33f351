"""Where running pods are found: a node's engines for its exporter, the exporters for the collector."""

from __future__ import annotations

from dataclasses import dataclass

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes puts a pod's token and the API server's certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDiscovery:
    """How an exporter finds the engines and LMCache servers of its node: as pods, by their arguments."""

    node: str | None = None
    """Name of this node; none: what the environment's NODE_NAME says."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to look in; empty: all of them."""
    endpoint_label: str = "tierscope.io/endpoint"
    """Label of a pod that names its endpoint; a pod without it belongs to the endpoint that its Deployment or
    StatefulSet is named after."""
    pool: str | None = None
    """Name of the L2 pool that the caches found here should write to; none: none."""
    pool_is_scanned: bool = False
    """Whether an exporter scans that pool where it is mounted."""
    find_seconds: float = 10.0
    """Pause between two looks."""
    api_url: str | None = None
    """Base address of the Kubernetes API; none: that of the cluster this process runs in."""
    service_account_folder: str = SERVICE_ACCOUNT
    """Folder with this process's `token`, read at every look, and `ca.crt`, the API server's certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterPods:
    """The exporters to read, found as pods; each feed has the name of the node its exporter runs on."""

    namespace: str
    """Namespace of the exporters' pods."""
    label: str = "app.kubernetes.io/component"
    """Label that tells an exporter's pod."""
    label_value: str = "exporter"
    """What that label says."""
    feed_port: int = 5777
    """Port of their feeds."""
    feed_replay_port: int = 5877
    """Port that replays their feeds."""
    find_seconds: float = 10.0
    """Pause between two looks."""
