"""What `tierscope doctor` looks at: each source as its settings name it, then what really arrived from it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tierscope.cli.doctor_check import Check
from tierscope.domain.errors import StoreUnusable, TierscopeError
from tierscope.domain.severity import Severity
from tierscope.domain.window import TimeSpan

if TYPE_CHECKING:
    from tierscope.domain.discovery import PodDiscovery
    from tierscope.domain.events import SourceCoverage
    from tierscope.domain.settings import EngineSettings, KubernetesSettings, LmcacheSettings, Settings

TIMEOUT_SECONDS = 3.0
"""Longest wait for one source."""
LOOK_BACK_SECONDS = 3600.0
"""Span of what arrived that numbers are judged by."""
FULL_RATIO = 0.999
ENOUGH_RATIO = 0.95
"""As advice takes them: below, the loss is told; below, no advice is given."""


def checks(settings: Settings, *, now_unix_seconds: float) -> Iterator[Check]:
    """Look at everything the settings name, in the order data travels."""
    exporter, collector = settings.exporter, settings.collector
    for engine in exporter.engines:
        yield from _engine(engine, "set {setting}")
    for server in exporter.lmcache:
        yield _server(server)
    if exporter.pods is not None:
        yield from _pods(exporter.pods)
    for cluster in exporter.curvine:
        pages = [
            _page(f"curvine {cluster.name}", url.rstrip("/") + "/metrics", Severity.WARNING)
            for url in cluster.master_urls
        ]
        yield next((page for page in pages if page.severity is None), pages[0])
    for feed in collector.feeds:
        yield _stream(f"feed {feed.name}", feed.endpoint, Severity.CRITICAL)
        yield _stream(f"feed {feed.name}, replay", feed.replay_endpoint, Severity.WARNING)
    if collector.kubernetes is not None:
        yield from _kubernetes(collector.kubernetes)
    yield from _arrived(settings, now_unix_seconds)


def _pods(discovery: PodDiscovery) -> Iterator[Check]:
    """What is found on this node, as if the settings named it."""
    from tierscope.cli.doctor_pods import PAGE, node_pods, pods_that_cannot_be_listed, wiring

    try:
        pods = node_pods(discovery, TIMEOUT_SECONDS)
    except TierscopeError as error:
        yield pods_that_cannot_be_listed(error)
        return
    yield from wiring(pods)
    for pod in pods:
        for engine in pod.part.engines:
            yield from _engine(engine, f"switch it on where the engine is started: {PAGE}")
        for server in pod.part.lmcache:
            yield _server(server)


def _server(server: LmcacheSettings) -> Check:
    return _page(f"lmcache {server.name}", server.url.rstrip("/") + "/metrics", Severity.CRITICAL)


def _engine(engine: EngineSettings, fix: str) -> Iterator[Check]:
    """An engine's page and streams; `fix` says how one that is missing is had."""
    name = f"engine {engine.namespace}/{engine.endpoint}/{engine.replica}/{engine.rank}"
    if engine.metrics_url is None:
        yield Check(name, Severity.WARNING, "no metrics_url: nothing checks our sums", "set metrics_url")
    else:
        yield _page(name, engine.metrics_url, Severity.CRITICAL)
    streams = (
        ("hook", engine.hook_endpoint, "there are no records a request: no attribution, no advice"),
        ("hook replay", engine.hook_replay_endpoint, "records that are missed are lost"),
        ("events", engine.events_endpoint, "evictions from the GPU are not seen"),
        ("events replay", engine.events_replay_endpoint, "a gap in the events cannot be closed"),
    )
    for what, endpoint, without in streams:
        if endpoint is None:
            setting = f"{what.replace(' ', '_')}_endpoint"
            yield Check(f"{name}, {what}", Severity.WARNING, without, fix.format(setting=setting))
        else:
            yield _stream(f"{name}, {what}", endpoint, Severity.CRITICAL)


def _page(source: str, url: str, severity: Severity) -> Check:
    import httpx

    try:
        response = httpx.get(url, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Check(
            source, severity, f"{url} does not answer: {error}", "check the address, and that it runs"
        )
    if not response.is_success:
        return Check(source, severity, f"{url} answers {response.status_code}", "check the address")
    return Check(source, None, f"{url} answers with {len(response.content)} bytes")


def _stream(source: str, endpoint: str, severity: Severity) -> Check:
    """Whether somebody listens; what they say is judged by what arrived."""
    parts = urlsplit(endpoint)
    if parts.scheme != "tcp" or parts.hostname is None or "*" in endpoint:
        return Check(source, Severity.INFO, f"{endpoint} is not tried: it is no tcp address")
    try:
        socket.create_connection((parts.hostname, parts.port or 0), TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        return Check(source, severity, f"nobody listens at {endpoint}: {error}", "check it, and that it runs")
    return Check(source, None, f"somebody listens at {endpoint}")


def _kubernetes(kubernetes: KubernetesSettings) -> Iterator[Check]:
    from collectors.kube.client import Absent, connect
    from collectors.kube.files import cluster_from
    from collectors.kube.kinds import KINDS

    try:
        if kubernetes.manifests:
            cluster_from(kubernetes.manifests)
            yield Check("kubernetes files", None, f"{len(kubernetes.manifests)} can be read")
            return
        api = connect(kubernetes.kubeconfig, kubernetes.context)
    except TierscopeError as error:
        yield Check("kubernetes", Severity.CRITICAL, error.what, error.fix)
        return
    for kind in KINDS:
        namespace = kubernetes.namespaces[0] if kubernetes.namespaces and kind.namespaced else None
        try:
            count = len(api.list_all(kind.path(namespace)).items)
        except Absent as error:
            severity = Severity.INFO if kind.is_optional else Severity.CRITICAL
            yield Check(f"kubernetes {kind.plural}", severity, error.what, error.fix)
        except TierscopeError as error:
            yield Check(f"kubernetes {kind.plural}", Severity.CRITICAL, error.what, error.fix)
        else:
            yield Check(f"kubernetes {kind.plural}", None, f"{count} are listed")
    api.close()


def _arrived(settings: Settings, now_unix_seconds: float) -> Iterator[Check]:
    """How much of each source's stream is in the store: what numbers rest on."""
    from tierscope.storage.serving import RemoteReader, socket_path

    collector = settings.collector
    reader = RemoteReader(
        socket_path(collector.store_path, collector.socket_path), timeout_seconds=TIMEOUT_SECONDS
    )
    try:
        coverage = reader.coverage(TimeSpan(now_unix_seconds - LOOK_BACK_SECONDS, now_unix_seconds))
    except StoreUnusable as error:
        yield Check("collector", Severity.CRITICAL, error.what, error.fix)
        return
    finally:
        reader.close()
    if not coverage:
        yield Check(
            "collector", Severity.WARNING, "nothing arrived in the last hour", "check the feeds above"
        )
    for part in coverage:
        yield _judged(part)


def _judged(part: SourceCoverage) -> Check:
    ratio = part.completeness_ratio
    if ratio is None:
        return Check(str(part.source), Severity.INFO, "nothing was due yet", "wait for traffic")
    says = f"{ratio:.2%} of it arrived in the last hour"
    if part.stale:
        return Check(
            str(part.source),
            Severity.WARNING,
            f"{says}; what is derived from it is unknown until it clears or restarts",
            "set its replay address",
        )
    if ratio >= FULL_RATIO:
        return Check(str(part.source), None, f"{says}: its numbers can be trusted")
    severity = Severity.WARNING if ratio >= ENOUGH_RATIO else Severity.CRITICAL
    return Check(
        str(part.source),
        severity,
        f"{says}: its numbers are too low",
        "set its replay address, find what restarts",
    )
