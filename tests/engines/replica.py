"""A replica of real servers, and an exporter of one or more of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from exporters.process import Exporter
from tests.engines import hook
from tests.engines.environment import Environment
from tests.engines.lmcache_environment import LMCacheEnvironment
from tests.engines.lmcache_server import LMCacheServer
from tests.engines.server import EngineServer, transfer_config
from tierscope.domain.settings import EngineSettings, ExporterSettings, LmcacheSettings

CHUNK_BYTES = 32_768
"""Of the tiny model: 2 layers, 2 heads of 32, keys and values, 2 bytes, 64 tokens."""
ANY = "tcp://127.0.0.1:*"


@dataclass(frozen=True)
class Replica:
    """A vLLM server in front of an LMCache server, with the probe in both."""

    name: str
    node: str
    """Name of the LMCache server."""
    hook: hook.Addresses
    engine: EngineServer
    cache: LMCacheServer


def in_front_of(cache: LMCacheServer, addresses: Path) -> tuple[str, str]:
    """The flag that puts LMCache's connector with the probe around it into an engine.

    The probe writes its own `addresses`.
    """
    return transfer_config(
        "ObservingLMCacheMPConnector",
        role="kv_both",
        tierscope={"endpoint": ANY, "replay_endpoint": ANY, "address_file": str(addresses)},
        **{"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": cache.rpc_port},
    )


@contextmanager
def replicas_on_one_pool(
    vllm: Environment,
    lmcache: LMCacheEnvironment,
    folder: Path,
    *,
    l1_chunks: int,
    seeds: Sequence[str] = ("0", "0"),
    arguments: Sequence[tuple[str, ...]] = ((), ()),
) -> Iterator[list[Replica]]:
    """Start replicas on one pool in `folder`, one for each seed of a cache server; engines start together.

    `arguments` are each cache server's own.
    """
    with ExitStack() as stack:
        replicas = []
        for number, (seed, own_arguments) in enumerate(zip(seeds, arguments, strict=True)):
            own = folder / f"replica-{number}"
            own.mkdir()
            cache = LMCacheServer(
                lmcache,
                own,
                l1_chunks=l1_chunks,
                chunk_bytes=CHUNK_BYTES,
                pool=folder / "pool",
                arguments=own_arguments,
                environ={"PYTHONHASHSEED": seed},
            )
            stack.enter_context(cache)
            engine = EngineServer(vllm, own, arguments=in_front_of(cache, own / "engine-probe.json"))
            stack.callback(engine.stop)
            engine.start()
            replicas.append((number, own, engine, cache))
        for _, _, engine, _ in replicas:
            engine.wait()
        yield [
            Replica(f"pod-{n}", f"node-{n}", hook.addresses(own / "engine-probe.json"), engine, cache)
            for n, own, engine, cache in replicas
        ]


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
        metrics_url=f"{replica.engine.url}/metrics",
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
