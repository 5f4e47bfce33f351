"""The testbed's fleet in virtual time with an incident on the way, as the detector's observations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tierscope.analytics.regression.observations import Observations, within
from tierscope.analytics.regression.seen import Reusable, SeenBlocks
from tierscope.domain.deployment import RoutingPolicy
from tierscope.testbed.config import Faults, Incident, IncidentKind, TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.workload.mixed import MixedWorkload


@dataclass
class Watch:
    """An observer that keeps a row a first token, in the order of `Observations`."""

    index: int
    rows: list[tuple[float, ...]]
    seen: SeenBlocks
    block_tokens: int
    waits: dict[int, float] = field(default_factory=dict)
    queued: dict[int, float] = field(default_factory=dict)
    reuse: dict[int, Reusable] = field(default_factory=dict)

    def admitted(self, task, at_seconds):
        if task.attempt == 0:
            self.queued[id(task)] = at_seconds - task.request.at_seconds
            prompt_blocks = task.request.prompt_tokens // self.block_tokens
            self.reuse[id(task)] = self.seen.ask(task.request.hashes[:prompt_blocks], self.index)

    def loaded(self, task, at_seconds, waited_seconds):
        self.waits.setdefault(id(task), waited_seconds)

    def first(self, task, at_seconds):
        l0, l1, l2 = task.credited
        prompt = task.request.prompt_tokens
        self.rows.append(
            (
                at_seconds, l0, l1, l2, 0.0, prompt - l0 - l1 - l2,
                self.queued[id(task)], self.waits.get(id(task), 0.0), at_seconds - task.request.at_seconds,
                *(blocks * self.block_tokens for blocks in self.reuse[id(task)]),
            )
        )  # fmt: skip

    def finished(self, task, at_seconds, *, generated, aborted):
        for known in (self.waits, self.queued, self.reuse):
            known.pop(id(task), None)


FAULTS: dict[IncidentKind, float] = {
    IncidentKind.L2_SLOW: 3.0,
    IncidentKind.L2_WORKER_LOST: 1.0,
    IncidentKind.L1_SHRUNK: 2.0,
    IncidentKind.SEED_MISMATCH: 1.0,
    IncidentKind.ROUTER_CHANGED: 1.0,
    IncidentKind.QUEUE: 4.0,
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
        slots=8 if kind is IncidentKind.QUEUE else 16,
    )


def observations(config: TestbedConfig) -> tuple[Observations, Fleet]:
    """Run the whole of it."""
    rows: list[tuple[float, ...]] = []
    seen = SeenBlocks()
    workload = MixedWorkload(
        config.mix,
        seed=config.seed,
        block_tokens=config.block_tokens,
        max_prompt_tokens=config.max_prompt_tokens,
        until_seconds=config.duration_seconds,
    )
    fleet = Fleet(config, workload, observe=lambda index: Watch(index, rows, seen, config.block_tokens))
    fleet.run_out()
    *parts, here, elsewhere, foreign = np.array(sorted(rows)).T
    prompt = sum(parts[1:6])
    return Observations(*parts, *within(prompt, here, elsewhere, foreign)), fleet
