"""One scenario: a deployment and its traffic, and what the advice must say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from tests import workloads as w
from tests.scenarios.best import best_sizes
from tests.scenarios.serving import Fleet, Served, serve
from tests.scenarios.traffic import SEEN, Maker, Traffic, cycle
from tierscope.advice.document import FindingKind, Status
from tierscope.domain.deployment import Deployment, Objective, RoutingPolicy
from tierscope.domain.events import SourceCoverage, TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence

FORTY_IN_TURN = cycle(40)


class Move(StrEnum):
    """Which way a size is to go."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True)
class Expected:
    """What must be said. `moves` are all changes by id, `missing` words of what stands in the way.

    `fields` are words that the documents to apply must have: the field to set, and where it can be told
    beforehand, its value. `best` are chunks of one holder, written down; see `best.best_sizes`.
    """

    status: Status
    moves: Mapping[str, Move] = field(default_factory=dict)
    best: Mapping[str, int] = field(default_factory=dict)
    findings: frozenset[FindingKind] = frozenset()
    fields: tuple[str, ...] = ()
    missing: str | None = None


@dataclass(frozen=True)
class Scenario:
    """Sizes are chunks of one holder, of L0 in blocks; `loses` is the share of records that never arrive.

    `seconds` are those of a fixed part, and of a token computed, from L1 and from L2. `kept` is the share of
    its hits that a tier really gives. `readings` are the share of L2 in use, evenly over what is seen.
    """

    name: str
    expected: Expected
    traffic: Maker = FORTY_IN_TURN
    l0: int = 4
    l1: int | None = None
    l2: int | None = None
    limits: tuple[int | None, int | None] = (None, None)
    replicas: int = 1
    routing: RoutingPolicy = RoutingPolicy.ROUNDROBIN
    objective: Objective = field(default_factory=Objective)
    bytes_per_token: float = w.BYTES_PER_TOKEN
    deployed: Mapping[str, object] = field(default_factory=dict)
    seen: int = SEEN
    loses: float | None = 0.0
    seconds: tuple[float, float, float, float] | None = None
    kept: Mapping[str, float] = field(default_factory=dict)
    readings: tuple[float, ...] = ()
    seeds_differ: bool = False
    l1_drops_loads: bool = False

    @property
    def chunk_bytes(self) -> float:
        return w.CHUNK_TOKENS * self.bytes_per_token

    def deployment(self) -> Deployment:
        l1, l2, *limits = (
            None if chunks is None else chunks * self.chunk_bytes
            for chunks in (self.l1, self.l2, *self.limits)
        )
        fields: dict[str, object] = {"bytes_per_token": self.bytes_per_token, **self.deployed}
        return w.deployment(
            l1,
            l2,
            l0_bytes=self.l0 * w.BLOCK_TOKENS * self.bytes_per_token,
            replicas=self.replicas,
            limits=(limits[0], limits[1]),
            routing=self.routing,
            objective=self.objective,
            **fields,
        )

    def made(self) -> Made:
        return Made(self, self.traffic())


@dataclass(frozen=True)
class Made:
    """A scenario with its traffic."""

    scenario: Scenario
    traffic: Traffic

    @property
    def fleet(self) -> Fleet:
        """Everything that comes, before and after the advice, by the replica it goes to."""
        of = self.scenario
        turn = np.arange(len(self.traffic.chains))
        by = np.array(self.traffic.sessions) if of.routing is RoutingPolicy.SESSION else turn
        return Fleet(self.traffic.chains, by % of.replicas, of.seeds_differ, of.l1_drops_loads)

    def best(self) -> dict[str, int]:
        """The best size of every tier that the expectation names one of."""
        of = self.scenario
        if not of.expected.best:
            return {}
        sizes = {"l1": (of.l1, of.limits[0]), "l2": (of.l2, of.limits[1])}
        limits = {tier: limit for tier, (size, limit) in sizes.items() if size is not None}
        found = best_sizes(self.fleet, of.l0, limits, of.objective.target)
        return {tier: found[tier] for tier in of.expected.best}

    def later_hit_ratio(self, **chunks: float) -> float:
        """What sizes attain on the prompts that come after the advice."""
        of = self.scenario
        today = {tier: size for tier, size in (("l1", of.l1), ("l2", of.l2)) if size is not None}
        units = {"l0": of.l0, **{tier: int(size + 1e-9) for tier, size in (today | chunks).items()}}
        prompt = np.array([len(chain) * w.BLOCK_TOKENS + 1 for chain in self.traffic.chains])
        later = slice(len(prompt) // 2, None)
        return float(serve(self.fleet, units).total[later].sum() / max(prompt[later].sum(), 1))

    def evidence(self) -> Evidence:
        """What was recorded of the first half, served by caches of today's sizes."""
        of, fleet, n = self.scenario, self.fleet, self.scenario.seen
        seen = fleet._replace(chains=fleet.chains[:n], engine=fleet.engine[:n])
        tiers = {"l0": of.l0, **{t: s for t, s in (("l1", of.l1), ("l2", of.l2)) if s is not None}}
        served = serve(seen, tiers)
        served = Served(
            *(_kept(getattr(served, tier), of.kept.get(tier, 1.0)) for tier in ("l0", "l1", "l2"))
        )
        window = w.window(
            [seen.named(i) for i in range(n)],
            replicas=of.replicas,
            engine=seen.engine.tolist(),
            hits=(served.l0, served.l1, served.l2),
        )
        if of.seconds is not None:
            window = replace(window, ttft_seconds=_ttft(of.seconds, served, window.computed))
        return w.evidence(window, samples=tuple(self._samples()), covered=self._coverage())

    def _coverage(self) -> tuple[SourceCoverage, ...]:
        of = self.scenario
        if of.loses is None:
            return ()
        lost = round(of.seen * of.loses)
        return (w.coverage(of.seen - lost, lost),)

    def _samples(self) -> list[TierSample]:
        of = self.scenario
        if of.l2 is None:
            return []
        capacity = of.l2 * of.chunk_bytes
        times = np.linspace(w.START, w.START + 3600, len(of.readings), endpoint=False)
        return [
            TierSample(Tier.L2, "pool", float(at), capacity_bytes=capacity, used_bytes=share * capacity)
            for at, share in zip(times, of.readings, strict=True)
        ]


def _kept(tokens: np.ndarray, share: float) -> np.ndarray:
    return (tokens * share).astype(np.int64)


def _ttft(seconds: tuple[float, float, float, float], served: Served, computed: np.ndarray) -> np.ndarray:
    fixed, compute, l1, l2 = seconds
    noise = np.random.default_rng(7).lognormal(0.0, 0.1, len(computed))
    return (fixed + compute * computed + l1 * served.l1 + l2 * served.l2) * noise
