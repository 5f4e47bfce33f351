"""A whole node for an exporter: eight engines, their LMCache server, a FUSE client; any of them may hang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.curvine_cluster import text
from tests.page_server import PageServer
from tierscope.domain.settings import CurvineSettings, EngineSettings, ExporterSettings, LmcacheSettings

ENGINES = 8


class Node:
    """The servers of one node: each source has one of its own, so that one that hangs holds up no other."""

    def __init__(self, captures: Path, servers: list[PageServer]) -> None:
        *self.engines, self.cache, self.master, self.fuse = servers
        page = (captures / "vllm" / "run-a-prefix-cache" / "metrics_after.txt").read_bytes()
        for engine in self.engines:
            engine.pages["/metrics"] = page
        lmcache, curvine = captures / "lmcache" / "mp_pull", captures / "curvine"
        self.cache.pages |= {
            "/metrics": (lmcache / "metrics.txt").read_bytes(),
            "/status": (lmcache / "status.json").read_bytes(),
        }
        self.master.pages |= {
            "/api/overview": (curvine / "api-overview.derived.json").read_bytes(),
            "/api/workers": (curvine / "api-workers-main.derived.json").read_bytes(),
            "/api/config": (curvine / "api-config.derived.json").read_bytes(),
            "/metrics": text(curvine, "master-main"),
        }
        self.fuse.pages["/metrics"] = text(curvine, "fuse-v0.4")

    @property
    def fuse_source(self) -> str:
        """The FUSE client's name among the sources."""
        return f"curvine_fuse:kv/{self.fuse.url.removeprefix('http://')}"

    @staticmethod
    def engine_source(index: int) -> str:
        """An engine's name among the sources."""
        return f"vllm_metrics:ns/chat/pod-{index}/0"

    def settings(self, **fields: float) -> ExporterSettings:
        """What an exporter of this node is told."""
        engines = tuple(
            EngineSettings(
                namespace="ns",
                endpoint="chat",
                replica=f"pod-{index}",
                metrics_url=f"{server.url}/metrics",
                lmcache="node",
            )
            for index, server in enumerate(self.engines)
        )
        pool = CurvineSettings(
            name="kv", master_urls=(self.master.url,), read_workers=False, fuse_urls=(self.fuse.url,)
        )
        return ExporterSettings(
            name="node",
            engines=engines,
            lmcache=(LmcacheSettings(name="node", url=self.cache.url, pool="kv"),),
            curvine=(pool,),
            **fields,
        )


@contextmanager
def running_node(captures: Path) -> Iterator[Node]:
    """Serve a node's pages."""
    servers = [PageServer() for _ in range(ENGINES + 3)]
    try:
        yield Node(captures, servers)
    finally:
        for server in servers:
            server.close()
