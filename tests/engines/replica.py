"""A replica of real servers, and an exporter of one or more of them."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.process import Exporter
from tests.engines import hook
from tests.engines.lmcache_server import LMCacheServer
from tierscope.domain.settings import EngineSettings, ExporterSettings, LmcacheSettings


@dataclass(frozen=True)
class Replica:
    """A vLLM server in front of an LMCache server, with the probe in both."""

    name: str
    node: str
    """Name of the LMCache server."""
    hook: hook.Addresses
    engine_url: str
    cache: LMCacheServer


def exporter_of(*replicas: Replica, pool: str | None = None, otlp_endpoint: str | None = None) -> Exporter:
    """Return an exporter, not yet started, of these replicas and their cache servers."""
    return Exporter(
        ExporterSettings(
            name="test",
            poll_seconds=0.5,
            otlp_endpoint=otlp_endpoint,
            engines=tuple(map(_engine, replicas)),
            lmcache=tuple(_server(replica, pool) for replica in replicas),
        )
    )


def _engine(replica: Replica) -> EngineSettings:
    return EngineSettings(
        namespace="ns",
        endpoint="chat",
        replica=replica.name,
        metrics_url=f"{replica.engine_url}/metrics",
        hook_endpoint=replica.hook.endpoint,
        hook_replay_endpoint=replica.hook.replay_endpoint,
        lmcache=replica.node,
    )


def _server(replica: Replica, pool: str | None) -> LmcacheSettings:
    records = hook.addresses(replica.cache.addresses)
    return LmcacheSettings(
        name=replica.node,
        url=replica.cache.url,
        pool=pool,
        records_endpoint=records.endpoint,
        records_replay_endpoint=records.replay_endpoint,
    )
