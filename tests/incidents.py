"""The testbed's fleet in virtual time with an incident on the way, as the detector's observations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tierscope.analytics.regression.endpoint import PoolHistory
from tierscope.analytics.regression.observations import Observations, by_distance, most_reusable
from tierscope.analytics.regression.seen import SeenBlocks
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.testbed.config import Faults, Incident, IncidentKind, TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.workload.mixed import MixedWorkload

POOL_READ_SECONDS = 15.0


@dataclass
class Watch:
    """An observer that keeps a row a first token: numbers, then tokens by distance in fleet and engine."""

    index: int
    rows: list[tuple[tuple[float, ...], list[float], list[float]]]
    seen: SeenBlocks
    block_tokens: int
    waits: dict[int, float] = field(default_factory=dict)
    queued: dict[int, float] = field(default_factory=dict)
    reuse: dict[int, tuple[list[float], list[float]]] = field(default_factory=dict)

    def admitted(self, task, at_seconds):
        if task.attempt == 0:
            prompt, size = task.request.prompt_tokens, self.block_tokens
            self.queued[id(task)] = at_seconds - task.request.at_seconds
            asked = self.seen.ask(
                "m", task.request.hashes[: prompt // size], self.index, most_reusable(prompt, size)
            )
            self.reuse[id(task)] = by_distance(asked, size)

    def loaded(self, task, at_seconds, waited_seconds):
        self.waits.setdefault(id(task), waited_seconds)

    def first(self, task, at_seconds):
        l0, l1, l2 = task.credited
        numbers = (
            at_seconds, l0, l1, l2, 0.0, task.request.prompt_tokens - l0 - l1 - l2,
            self.queued[id(task)], self.waits.get(id(task), 0.0), at_seconds - task.request.at_seconds,
        )  # fmt: skip
        self.rows.append((numbers, *self.reuse[id(task)]))

    def finished(self, task, at_seconds, *, generated, aborted):
        for known in (self.waits, self.queued, self.reuse):
            known.pop(id(task), None)


FAULTS: dict[IncidentKind, float] = {
    IncidentKind.L2_SLOW: 3.0,
    IncidentKind.L2_WORKER_LOST: 1.0,
    IncidentKind.L1_SHRUNK: 2.0,
    IncidentKind.SEED_MISMATCH: 1.0,
    IncidentKind.ROUTER_CHANGED: 1.0,
    IncidentKind.QUEUE: 5.0,
    IncidentKind.ENGINE_SLOW: 1.5,
}
"""Every fault that is planted, with how much."""


def deployment(
    kind: IncidentKind | None, seed: int, *, warm_seconds: float, after_seconds: float
) -> TestbedConfig:
    """A deployment in which the fault can be felt, and the fault half-way."""
    incidents = () if kind is None else (Incident(kind=kind, at_seconds=warm_seconds, factor=FAULTS[kind]),)
    return TestbedConfig(
        seed=seed,
        replicas=2,
        routing=RoutingPolicy.SESSION if kind is IncidentKind.ROUTER_CHANGED else RoutingPolicy.ROUNDROBIN,
        duration_seconds=warm_seconds + after_seconds,
        l2_ttl_seconds=1800.0,  # the pool is as full as it gets before the baseline begins
        faults=Faults(incidents=incidents),
    )


def observations(config: TestbedConfig) -> tuple[Observations, PoolHistory]:
    """Run the whole of it; the requests, and the pool as its master would have told."""
    rows: list[tuple[tuple[float, ...], list[float], list[float]]] = []
    seen = SeenBlocks()
    workload = MixedWorkload.of(config)
    fleet = Fleet(config, workload, observe=lambda index: Watch(index, rows, seen, config.block_tokens))
    pool, at = PoolHistory(), 0.0
    assert config.duration_seconds is not None
    while at < config.duration_seconds:
        at += POOL_READ_SECONDS
        fleet.run_until(at)
        pool.add([TierSample(Tier.L2, "pool", at, fleet.pool.capacity_bytes, fleet.pool.used_bytes)])
    fleet.run_out()
    rows.sort(key=lambda row: row[0])
    numbers, of_fleet, own = zip(*rows, strict=True)
    return Observations(*np.array(numbers).T, np.array(of_fleet), np.array(own)), pool
