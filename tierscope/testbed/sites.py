"""Which pages there are, and what each says when asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tierscope.testbed.config import Faults, TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.replica import Replica
from tierscope.testbed.wire.curvine_page import (
    curvine_config,
    curvine_overview,
    curvine_page,
    curvine_workers,
    worker_page,
)
from tierscope.testbed.wire.exposition import Exposition
from tierscope.testbed.wire.lmcache_page import lmcache_page, lmcache_status
from tierscope.testbed.wire.pages import Answer
from tierscope.testbed.wire.vllm_page import EngineFacts, vllm_page

CURVINE = "curvine"

Site = dict[str, Callable[[], Answer]]


def vllm_site(index: int) -> str:
    """Name of an engine's pages, for addresses and faults."""
    return f"vllm-{index}"


def lmcache_site(index: int) -> str:
    """Name of a cache server's pages."""
    return f"lmcache-{index}"


def worker_site(index: int) -> str:
    """Name of a pool worker's page."""
    return f"curvine-worker-{index}"


class Sites:
    """Makes pages from a fleet at rest: each is built while `lock` keeps the model from moving.

    `port_of` tells where a site is served; it is asked when a page is.
    """

    def __init__(
        self,
        config: TestbedConfig,
        fleet: Fleet,
        replicas: list[Replica],
        *,
        epoch_unix_seconds: float,
        lock: AbstractContextManager[object],
        faults: Callable[[], Faults],
        port_of: Callable[[str], int],
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._replicas = replicas
        self._epoch_unix_seconds = epoch_unix_seconds
        self._lock = lock
        self._faults = faults
        self._port_of = port_of

    def all(self) -> dict[str, Site]:
        """Every site by name."""
        sites: dict[str, Site] = {CURVINE: self._curvine()}
        for index in range(self._config.replicas):
            sites[vllm_site(index)] = self._vllm(index)
            sites[lmcache_site(index)] = self._lmcache(index)
        for index in range(self._config.l2_workers):
            sites[worker_site(index)] = self._worker(index)
        return sites

    def _vllm(self, index: int) -> Site:
        config, replica = self._config, self._replicas[index]

        def page() -> Exposition:
            facts = EngineFacts.of(config, started_unix_seconds=replica.started_unix_seconds)
            return vllm_page(self._fleet.engines[index], facts)

        return {"/metrics": self._text(page), "/health": self._bytes("text/plain", lambda: b"")}

    def _lmcache(self, index: int) -> Site:
        config = self._config

        def status() -> bytes:
            return lmcache_status(self._fleet.engines[index].cache, config)

        return {
            "/metrics": self._text(lambda: lmcache_page(self._fleet.engines[index].cache, config)),
            "/status": self._bytes("application/json", status),
        }

    def _curvine(self) -> Site:
        pool, epoch = self._fleet.pool, self._epoch_unix_seconds

        def workers() -> bytes:
            ports = [self._port_of(worker_site(index)) for index in range(self._config.l2_workers)]
            now_unix_seconds = epoch + self._fleet.schedule.now_seconds
            return curvine_workers(pool, web_ports=ports, now_unix_seconds=now_unix_seconds)

        return {
            "/metrics": self._text(lambda: curvine_page(pool)),
            "/api/overview": self._bytes(
                "application/json", lambda: curvine_overview(pool, started_unix_seconds=epoch)
            ),
            "/api/workers": self._bytes("application/json", workers),
            "/api/config": self._bytes("application/json", lambda: curvine_config(pool)),
        }

    def _worker(self, index: int) -> Site:
        return {"/metrics": self._text(lambda: worker_page(self._fleet.pool, index))}

    def _text(self, page: Callable[[], Exposition]) -> Callable[[], Answer]:
        def answer() -> Answer:
            with self._lock:
                exposition = page()
            body = exposition.page(garbage_lines=self._faults().garbage_lines)
            return Answer("text/plain; version=0.0.4; charset=utf-8", body)

        return answer

    def _bytes(self, content_type: str, body: Callable[[], bytes]) -> Callable[[], Answer]:
        def answer() -> Answer:
            with self._lock:
                return Answer(content_type, body())

        return answer
