"""What an endpoint costs an hour at some sizes, by the prices its owner gave; absent where one is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tierscope.advice.predictions import Estimate
from tierscope.domain.deployment import Deployment
from tierscope.domain.prices import InstanceFigures
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.wiring import CacheScope


def instance_of(deployment: Deployment) -> InstanceFigures | None:
    """The figures of the instance type the endpoint prefers, where its owner gave them."""
    prices = deployment.objective.prices
    if prices is None or deployment.wiring is None:
        return None
    return next(
        (found for name in deployment.wiring.instance_types if (found := prices.instance(name))), None
    )


def cost_per_hour(
    deployment: Deployment, sizes: Mapping[Tier, float], instance: InstanceFigures | None = None
) -> Estimate | None:
    """Instances, host memory of L1 and disks of L2 together; None where a price of one is not known.

    `sizes` are bytes of one holder. `instance` is another type to run on. Memory and disks without a price
    are paid with the instances; where these have none either, nothing is known.
    """
    prices = deployment.objective.prices
    if prices is None:
        return None
    on = instance or instance_of(deployment)
    value = instances_cost(deployment, on)
    value += tiers_cost(deployment, sizes)
    if on is None and any(missing_prices(deployment)):
        return None
    spread = prices.uncertainty_ratio
    return Estimate(value, value * (1 - spread), value * (1 + spread))


def tiers_cost(deployment: Deployment, sizes: Mapping[Tier, float]) -> float:
    """The part of the cost that follows the sizes: what has a price of its own."""
    prices = deployment.objective.prices
    if prices is None:
        return 0.0
    host, pool = prices.host_gib_per_hour or 0.0, prices.pool_gib_per_hour or 0.0
    l1 = sizes.get(Tier.L1, 0.0) * holders(deployment, Tier.L1)
    return l1 / GIB * host + sizes.get(Tier.L2, 0.0) / GIB * pool


def instances_cost(deployment: Deployment, instance: InstanceFigures | None) -> float:
    """The part of the cost that does not: whole instances for all replicas, 0 where they have no price."""
    if instance is None:
        return 0.0
    return math.ceil(deployment.replicas / instance.replicas) * instance.price_per_hour


def missing_prices(deployment: Deployment) -> Iterator[str]:
    """Yield each tier whose bytes cost something that nobody told."""
    prices = deployment.objective.prices
    if instance_of(deployment) is not None:
        return
    if deployment.tier(Tier.L1) and (prices is None or prices.host_gib_per_hour is None):
        yield "objective.prices.host_gib_per_hour, or the price of the endpoint's instance type"
    if deployment.tier(Tier.L2) and (prices is None or prices.pool_gib_per_hour is None):
        yield "objective.prices.pool_gib_per_hour, or the price of the endpoint's instance type"


def holders(deployment: Deployment, tier: Tier) -> int:
    """How many of a tier the endpoint has: one L0 and L1 a replica, one L1 a node's server, one pool."""
    if tier is Tier.L2:
        return 1
    wiring = deployment.wiring
    if tier is Tier.L1 and wiring is not None and wiring.l1_scope is CacheScope.NODE:
        return math.ceil(deployment.replicas / wiring.replicas_a_node)
    return deployment.replicas


def total_bytes(deployment: Deployment, sizes: Mapping[Tier, float]) -> float:
    """Bytes of all holders of all tiers together."""
    return sum(size * holders(deployment, tier) for tier, size in sizes.items())
