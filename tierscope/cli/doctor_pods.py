"""What `tierscope doctor` says of the pods that an exporter finds on its node: how each engine is wired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tierscope.cli.doctor_check import Check
from tierscope.domain.errors import TierscopeError
from tierscope.domain.severity import Severity

if TYPE_CHECKING:
    from exporters.pods.found import FoundPod
    from tierscope.domain.discovery import PodDiscovery

PAGE = "docs/wire-an-engine.md"


def node_pods(discovery: PodDiscovery, timeout_seconds: float) -> Sequence[FoundPod]:
    """The pods with engines or caches on this node; raises `TierscopeError`."""
    from exporters.pods.fetch import PodLister
    from exporters.pods.found import found_pods

    lister = PodLister(discovery, timeout_seconds)
    try:
        return found_pods(lister.list_pods(), discovery)
    finally:
        lister.close()


def pods_that_cannot_be_listed(error: TierscopeError) -> Check:
    """Nothing is found, and so nothing read."""
    return Check("pods", Severity.CRITICAL, error.what, error.fix)


def wiring(pods: Sequence[FoundPod]) -> Iterator[Check]:
    """How many pods there are, and of each engine which connector won and what its L1 is."""
    if not pods:
        yield Check(
            "pods", Severity.WARNING, "no pod of this node has an engine or a cache server", "see " + PAGE
        )
        return
    yield Check("pods", None, f"{', '.join(pod.name for pod in pods)}: read by their arguments")
    for pod in pods:
        if pod.engine is not None:
            yield _connector(pod, pods)


def _connector(pod: FoundPod, pods: Sequence[FoundPod]) -> Check:
    from exporters.pods.found import server_of

    source, engine = f"pod {pod.name}, connector", pod.engine
    assert engine is not None, "asked of pods with an engine"
    name = engine.connector_name or "none"
    if engine.connectors_given > 1:
        return Check(
            source,
            Severity.WARNING,
            f"--kv-transfer-config is given {engine.connectors_given} times; the last one, {name}, won",
            "leave one of them; where an operator appends its own, yours has to be written into that one",
        )
    if engine.loads_from_server and server_of(pod, pods) is None:
        return Check(
            source,
            Severity.WARNING,
            f"{name} won, and which LMCache server it loads from cannot be told",
            "run one server a node, or one in the engine's pod",
        )
    if not engine.connector_name and engine.has_cache_inside:
        return Check(
            source,
            Severity.WARNING,
            "there are LMCACHE_ variables and no --kv-transfer-config: whether LMCache runs is not told here",
            f"look at the engine's first log lines for its connector; {PAGE}",
        )
    return Check(source, None, f"{name} won")
