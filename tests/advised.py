"""Advice given, followed and measured on the testbed: drawn deployments, what was foretold, what came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tests.fleet_records import run_fleet
from tierscope.advice.document import Change, ChangeKind, Recommendation
from tierscope.advice.predictions import Predicted
from tierscope.advice.recommend import recommend
from tierscope.advice.routing.advisor import Advisor
from tierscope.domain.deployment import Objective, ObjectiveKind, RoutingPolicy
from tierscope.domain.prices import Prices
from tierscope.domain.units import GIB
from tierscope.domain.window import RequestWindow
from tierscope.testbed.config import Mix, TestbedConfig
from tierscope.testbed.routers import ROUTERS
from tierscope.testbed.testbed import Testbed

SPAN = 1800.0
"""Virtual seconds that advice sees, and that are measured after it."""


@dataclass(frozen=True, slots=True)
class Came:
    """What the half hour after a change brought: shares of prompt tokens, and TTFT in seconds."""

    l0: float
    l1: float
    l2: float
    total: float
    mean: float
    p50: float
    p90: float
    waiting_share: float
    """Share of the mean TTFT that is waiting for a place in an engine."""


@dataclass(frozen=True, slots=True)
class Followed:
    """One deployment whose advice was followed."""

    config: TestbedConfig
    document: Recommendation
    before: Came
    after: Came

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.document.changes

    @property
    def predicted(self) -> Predicted:
        return self.changes[-1].predicted


def drawn(seed: int) -> TestbedConfig:
    """A deployment with half an hour of traffic, its sizes, traffic, router and aim drawn."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.5, 1.2)
    usual = Mix()
    replicas = int(rng.integers(2, 4))
    share = load * replicas / 4
    kinds = rng.uniform(0.5, 1.5, 4) * share
    return TestbedConfig(
        seed=seed,
        replicas=replicas,
        routing=RoutingPolicy.ROUNDROBIN if seed % 3 == 0 else RoutingPolicy.SESSION,
        l0_bytes=float(rng.choice([2, 4, 8])) * GIB,
        l1_bytes=float(rng.choice([4, 8, 16, 32, 64])) * GIB,
        l2_bytes=float(rng.choice([256, 384, 512])) * GIB,
        l2_ttl_seconds=float(rng.choice([600.0, 900.0, 1800.0])),
        objective=_aim(rng),
        duration_seconds=SPAN,
        mix=replace(
            usual,
            agents_per_second=usual.agents_per_second * kinds[0],
            chats_per_second=usual.chats_per_second * kinds[1],
            documents_per_second=usual.documents_per_second * kinds[2],
            unrelated_per_second=usual.unrelated_per_second * kinds[3],
        ),
    )


def _aim(rng: np.random.Generator) -> Objective:
    prices = Prices(host_gib_per_hour=0.005, pool_gib_per_hour=0.0003)
    return [
        Objective(),
        Objective(target=0.99),
        Objective(kind=ObjectiveKind.LOWEST_TTFT, target=float(rng.uniform(0.3, 2.0)), prices=prices),
    ][int(rng.integers(3))]


def followed(config: TestbedConfig) -> Followed | Recommendation:
    """Advise after half an hour, apply all that is advised, and measure the half hour after that one.

    The second half hour's traffic was never seen when the advice was given. Sizes alone are asked about where
    routing is by session; the comparison of routers is what takes long. A document without a change, or with
    one that the testbed has no router for, is handed back.
    """
    before = run_fleet(config)
    advise = Advisor() if config.routing is RoutingPolicy.ROUNDROBIN else recommend
    document = advise(before, Testbed(config).deployment(), now_unix_seconds=SPAN)
    told = dict(changed(document))
    if not document.changes or told.get("routing", config.routing) not in ROUTERS:
        return document
    after = run_fleet(replace(config, **told, duration_seconds=2 * SPAN))
    return Followed(config, document, came(before.window, 0.3 * SPAN), came(after.window, SPAN))


def changed(document: Recommendation) -> Iterator[tuple[str, object]]:
    """The settings of a testbed that follows advice."""
    for change in document.changes:
        match change.kind:
            case ChangeKind.TIER_SIZE:
                yield f"{change.target}_bytes", change.to
            case ChangeKind.ROUTING:
                yield "routing", RoutingPolicy(change.to)
            case ChangeKind.REPLICAS:
                yield "replicas", int(change.to)


def came(window: RequestWindow, since: float) -> Came:
    """Sum up what was admitted from a second on."""
    later = window.at_unix_seconds >= since
    prompt = window.prompt[later].sum()
    l0, l1, l2 = (float(part[later].sum() / prompt) for part in (window.l0, window.l1, window.l2))
    ttft, queue = window.ttft_seconds[later], window.queue_seconds[later]
    p50, p90 = (float(q) for q in np.quantile(ttft, (0.5, 0.9)))
    return Came(l0, l1, l2, l0 + l1 + l2, float(ttft.mean()), p50, p90, float(queue.sum() / ttft.sum()))
