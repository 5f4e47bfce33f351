"""What sizes cost: by the owner's prices, and not at all where one is missing."""

from __future__ import annotations

import pytest

from tests import workloads as w
from tierscope.advice.sizing.cost import cost_per_hour, missing_prices
from tierscope.domain.deployment import Deployment, Objective
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.wiring import CacheScope, Wiring

SIZES = {Tier.L1: 64 * GIB, Tier.L2: 1024 * GIB}
TWO_A_NODE = InstanceFigures("ml.example", price_per_hour=8.0, replicas=2)


def deployed(prices: Prices | None, **fields: object) -> Deployment:
    return w.deployment(
        SIZES[Tier.L1], SIZES[Tier.L2], replicas=3, objective=Objective(prices=prices), **fields
    )


def test_memory_counts_once_a_replica_and_the_pool_once():
    """Three times 64 GiB at 0.005, and one TiB at 0.0001."""
    cost = cost_per_hour(deployed(Prices(host_gib_per_hour=0.005, pool_gib_per_hour=0.0001)), SIZES)

    assert cost.value == pytest.approx(3 * 64 * 0.005 + 1024 * 0.0001)
    assert cost.low == cost.value == cost.high


def test_a_server_of_a_node_has_its_memory_once():
    """Two replicas on a node share one L1: three of them are on two nodes."""
    wiring = Wiring(l1_scope=CacheScope.NODE, replicas_a_node=2)
    prices = Prices(host_gib_per_hour=0.005, pool_gib_per_hour=0.0001)

    assert cost_per_hour(deployed(prices, wiring=wiring), SIZES).value == pytest.approx(
        2 * 64 * 0.005 + 1024 * 0.0001
    )


def test_what_has_no_price_of_its_own_is_paid_with_the_instances():
    """Three replicas, two on an instance: two whole instances, and whatever they hold."""
    wiring = Wiring(instance_types=("ml.other", "ml.example"))
    cost = cost_per_hour(deployed(Prices(instances=(TWO_A_NODE,)), wiring=wiring), SIZES)

    assert cost.value == 16.0


@pytest.mark.parametrize(
    "prices",
    [None, Prices(), Prices(host_gib_per_hour=0.005), Prices(instances=(TWO_A_NODE,))],
    ids=["none", "empty", "no pool", "an instance type it does not run on"],
)
def test_a_missing_price_is_no_cost_of_zero(prices):
    """Absent, and named."""
    assert cost_per_hour(deployed(prices), SIZES) is None
    assert any("pool_gib_per_hour" in price for price in missing_prices(deployed(prices)))


def test_uncertain_prices_widen_the_cost():
    """Ten percent either way."""
    prices = Prices(host_gib_per_hour=0.005, pool_gib_per_hour=0.0001, uncertainty_ratio=0.1)
    cost = cost_per_hour(deployed(prices), SIZES)

    assert (cost.low, cost.high) == pytest.approx((0.9 * cost.value, 1.1 * cost.value))
