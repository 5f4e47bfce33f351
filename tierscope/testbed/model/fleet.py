"""The whole deployment in virtual time: traffic, router, engines, their caches and the shared pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tierscope.domain.deployment import RoutingPolicy
from tierscope.testbed.config import Incident, IncidentKind, TestbedConfig
from tierscope.testbed.model.engine import Engine
from tierscope.testbed.model.incidents import befall
from tierscope.testbed.model.l1 import Cache, CacheWatch
from tierscope.testbed.model.l2 import Pool
from tierscope.testbed.model.schedule import Schedule
from tierscope.testbed.model.service import Service
from tierscope.testbed.model.task import Observer
from tierscope.testbed.routers import ROUTERS
from tierscope.testbed.workload.hashes import mix
from tierscope.testbed.workload.request import Request, Workload

DRAIN_SECONDS = 30.0
"""Virtual seconds after the last arrival of a bounded run; who waits longer for an answer hangs up."""


class Fleet:
    """Runs a workload on a deployment. The same configuration and workload do the same, step by step.

    `observe` gives the observer of a replica's engine, `watch` that of its cache server, if it has one;
    `restarted` is told when an engine lost everything.
    """

    def __init__(
        self,
        config: TestbedConfig,
        workload: Workload,
        *,
        observe: Callable[[int], Observer],
        watch: Callable[[int], CacheWatch | None] = lambda _: None,
        restarted: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.schedule = Schedule()
        self.requests = 0
        self.refused_requests = 0
        self.pool = Pool(
            capacity_bytes=config.l2_bytes,
            chunk_bytes=config.chunk_bytes,
            workers=config.l2_workers,
            block_bytes=config.l2_block_bytes,
            ttl_seconds=config.l2_ttl_seconds,
            ttl_check_seconds=config.l2_ttl_check_seconds,
        )
        self._config = config
        self._workload = workload
        self._observe = observe
        self._restarted = restarted
        self._router = ROUTERS[config.routing](config.replicas)
        self._unsettled = 0
        self._more_arrivals = True
        caches = [Cache.of(config, self.pool, watch(index)) for index in range(config.replicas)]
        self.engines = [self._new_engine(index, cache, life=0) for index, cache in enumerate(caches)]
        self._lives = [0] * config.replicas
        if config.duration_seconds is not None:
            self.schedule.at(config.duration_seconds + DRAIN_SECONDS, self._hang_up)
        for incident in config.faults.incidents:
            self.schedule.at(incident.at_seconds, partial(self.befall, incident))
        for restart in config.faults.restarts:
            self.schedule.at(restart.at_seconds, partial(self.restart, restart.replica))
        self._await_arrival()

    @property
    def finished(self) -> bool:
        """Whether every request there will ever be has ended."""
        return not self._more_arrivals and not self._unsettled

    def run_until(self, seconds: float) -> None:
        """Let everything happen that happens up to a virtual second."""
        self.schedule.run_until(seconds)

    def run_out(self) -> None:
        """Let everything happen that will ever happen; for workloads that end."""
        self.schedule.run_out()

    def restart(self, replica: int) -> None:
        """Restart one engine: its L0, counters and requests are gone, its L1 server lives on."""
        engine = self.engines[replica]
        lost = engine.stop()
        self._lives[replica] += 1
        self.engines[replica] = self._new_engine(replica, engine.cache, life=self._lives[replica])
        self._restarted(replica)
        for request in lost:
            self._settle(request, self.schedule.now_seconds)

    def befall(self, incident: Incident) -> None:
        """Let an incident change the deployment, from now on."""
        if incident.kind is IncidentKind.ROUTER_CHANGED:
            self._router = ROUTERS[RoutingPolicy.ROUNDROBIN](self._config.replicas)
        befall(incident, self.engines, self.pool, self.schedule.now_seconds)

    def _hang_up(self) -> None:
        for engine in self.engines:
            engine.hang_up()

    def _await_arrival(self) -> None:
        request = self._workload.next_arrival()
        if request is None:
            self._more_arrivals = False
        else:
            self.schedule.at(request.at_seconds, partial(self._arrive_next, request))

    def _arrive_next(self, request: Request) -> None:
        self._unsettled += 1
        self._arrive(request)
        self._await_arrival()

    def _arrive(self, request: Request) -> None:
        engine = self.engines[self._router.route(request)]
        if engine.fits(request):
            self.requests += 1
            engine.submit(request)
        else:
            self.refused_requests += 1
            self._settle(request, self.schedule.now_seconds)

    def _settle(self, request: Request, at_seconds: float) -> None:
        """A request has ended; its client may send the next."""
        follow_up = self._workload.follow_up(request, at_seconds)
        if follow_up is None:
            self._unsettled -= 1
        else:
            self.schedule.at(follow_up.at_seconds, partial(self._arrive, follow_up))

    def _new_engine(self, index: int, cache: Cache, *, life: int) -> Engine:
        config = self._config
        service = Service(
            config.service,
            bytes_per_token=config.bytes_per_token,
            chunk_tokens=config.tokens_per_chunk,
            seed=mix(mix(config.seed, index), life),
        )
        return Engine(
            schedule=self.schedule,
            usable_blocks=config.l0_blocks - 1,
            block_tokens=config.block_tokens,
            slots=config.slots,
            cache=cache,
            service=service,
            observer=self._observe(index),
            done=self._settle,
        )
