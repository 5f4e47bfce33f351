"""One scenario: a deployment and its traffic, and what the advice must say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product

import numpy as np

from tests import workloads as w
from tests.scenarios.best import best_sizes, chunks_needed
from tests.scenarios.serving import Fleet, Served, serve
from tests.scenarios.traffic import SEEN, Maker, Traffic, cycle
from tierscope.advice.document import FindingKind, Status
from tierscope.domain.deployment import Deployment, Objective, ObjectiveKind, RoutingPolicy
from tierscope.domain.events import SourceCoverage, TierSample
from tierscope.domain.prices import Prices
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.window import Evidence

FORTY_IN_TURN = cycle(40)


class Move(StrEnum):
    """Which way a size is to go."""

    UP = "up"
    DOWN = "down"
    SET = "set"
    """Another value of something that is no size."""


@dataclass(frozen=True)
class Expected:
    """What must be said. `moves` are all changes by id, `missing` words of what stands in the way.

    `fields` are words that the documents to apply must have: the field to set, and where it can be told
    beforehand, its value. `best` are chunks of one holder, written down; see `best.best_sizes`.
    `bytes_ratio` is what a token then takes of today's bytes.
    """

    status: Status
    moves: Mapping[str, Move] = field(default_factory=dict)
    best: Mapping[str, int] = field(default_factory=dict)
    findings: frozenset[FindingKind] = frozenset()
    fields: tuple[str, ...] = ()
    missing: str | None = None
    bytes_ratio: float = 1.0


@dataclass(frozen=True)
class Scenario:
    """Sizes are chunks of one holder, of L0 in blocks; `loses` is the share of records that never arrive.

    `prices` are those of an hour of a chunk of host memory and of pool, `least` the chunks that no tier goes
    below where an objective weighs them. `seconds` are those of a fixed part, and of a token computed, from
    L1 and from L2. `kept` is the share of its hits that a tier really gives. `readings` are the share of L2
    in use, evenly over what is seen.
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
    prices: tuple[float, float] | None = None
    least: tuple[int, int] = (1, 1)
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
            objective=self.priced(),
            **fields,
        )

    def priced(self) -> Objective:
        """The objective with its prices, in GiB as people have them."""
        if self.prices is None:
            return self.objective
        host, pool = (price * GIB / self.chunk_bytes for price in self.prices)
        known = self.objective.prices or Prices()
        return replace(self.objective, prices=replace(known, host_gib_per_hour=host, pool_gib_per_hour=pool))

    def made(self) -> Made:
        return Made(self, self.traffic())


@dataclass(frozen=True)
class Outcome:
    """Hit ratio, the objective's TTFT without noise, and what the tiers' bytes cost an hour."""

    hit_ratio: float
    ttft_seconds: float
    cost: float


def outcome_of(of: Scenario, served: Served, prompt: np.ndarray, units: Mapping[str, float]) -> Outcome:
    fixed, compute, l1, l2 = of.seconds or (0.0, 0.0, 0.0, 0.0)
    seconds = fixed + compute * (prompt - served.total) + l1 * served.l1 + l2 * served.l2
    host, pool = of.prices or (0.0, 0.0)
    return Outcome(
        hit_ratio=float(served.total.sum() / max(prompt.sum(), 1)),
        ttft_seconds=float(np.quantile(seconds, of.objective.ttft.share)) if len(seconds) else 0.0,
        cost=of.replicas * units.get("l1", 0) * host + units.get("l2", 0) * pool,
    )


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
        if of.objective.kind is not ObjectiveKind.HIT_RATIO_SHARE:
            return best_for(self)
        sizes = {"l1": (of.l1, of.limits[0]), "l2": (of.l2, of.limits[1])}
        limits = {tier: limit for tier, (size, limit) in sizes.items() if size is not None}
        found = best_sizes(self.fleet, of.l0, limits, of.objective.target)
        return {tier: found[tier] for tier in of.expected.best}

    def later(self, **chunks: float) -> Outcome:
        """What sizes come to on the prompts that follow the advice."""
        of = self.scenario
        today = {tier: size for tier, size in (("l1", of.l1), ("l2", of.l2)) if size is not None}
        units = {tier: int(size + 1e-9) for tier, size in ({"l0": of.l0} | today | chunks).items()}
        prompt = np.array([len(chain) * w.BLOCK_TOKENS + 1 for chain in self.traffic.chains])
        later = slice(len(prompt) // 2, None)
        served = Served(*(part[later] for part in serve(self.fleet, units)))
        return outcome_of(of, served, prompt[later], units)

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


STEP = 12
"""Chunks between two sizes that are tried where tiers are weighed against each other."""


def best_for(made: Made) -> dict[str, int]:
    """Sizes that do best what the objective asks for, of every combination in steps, on what comes later."""
    of, fleet = made.scenario, made.fleet
    later = slice(len(fleet.chains) // 2, None)
    l0 = of.expected.best.get("l0", of.l0)
    prompt = np.array([len(chain) * w.BLOCK_TOKENS + 1 for chain in fleet.chains])[later]
    base = serve(fleet, {"l0": l0}).total[later]
    found: list[tuple[Outcome, dict[str, int]]] = []
    depths = {
        tier: _tokens_at(fleet.chunks(), holder, later, least, limit)
        for (tier, size, holder, least, limit) in (
            ("l1", of.l1, fleet.engine, of.least[0], of.limits[0]),
            ("l2", of.l2, np.zeros_like(fleet.engine), of.least[1], of.limits[1]),
        )
        if size is not None
    }
    for places in product(*depths.values()):
        units = {"l0": l0, **dict(zip(depths, places, strict=True))}
        down_to, parts = base, {"l1": 0 * base, "l2": 0 * base}
        for tier, chunks in zip(depths, places, strict=True):
            reached = np.maximum(down_to, depths[tier][chunks])
            parts[tier], down_to = reached - down_to, reached
        found.append((outcome_of(of, Served(base, parts["l1"], parts["l2"]), prompt, units), units))
    sizes = min(_serving(of.objective, found), key=lambda one: _preferred(of.objective, one[0]))[1]
    return {tier: sizes[tier] for tier in of.expected.best}


def _tokens_at(
    paths: Sequence[Sequence[int]], holder: np.ndarray, later: slice, least: int, limit: int | None
) -> dict[int, np.ndarray]:
    needed = chunks_needed(paths, holder)[later]
    most = int(needed[needed < np.iinfo(np.int64).max].max(initial=least))
    sizes = range(least, min(most + STEP, most + STEP if limit is None else limit) + 1, STEP)
    return {size: (needed <= size).sum(axis=1) * w.CHUNK_TOKENS for size in sizes}


def _serving(
    objective: Objective, found: Sequence[tuple[Outcome, dict[str, int]]]
) -> list[tuple[Outcome, dict[str, int]]]:
    does = {
        ObjectiveKind.HIT_RATIO: lambda one: one.hit_ratio >= objective.target,
        ObjectiveKind.LOWEST_COST: lambda one: one.ttft_seconds <= objective.target,
        ObjectiveKind.LOWEST_TTFT: lambda one: one.cost <= objective.target,
    }[objective.kind]
    return [one for one in found if does(one[0])]


def _preferred(objective: Objective, one: Outcome) -> tuple[float, ...]:
    if objective.kind is ObjectiveKind.LOWEST_TTFT:
        return (one.ttft_seconds, one.cost)
    return (one.cost, one.ttft_seconds)
