"""Routers: who serves a request. One file each; `ROUTERS` is the list."""

from __future__ import annotations

from collections.abc import Callable

from tierscope.domain.deployment import RoutingPolicy
from tierscope.testbed.routers.protocol import Router
from tierscope.testbed.routers.roundrobin import RoundRobin
from tierscope.testbed.routers.session import SessionHash

ROUTERS: dict[RoutingPolicy, Callable[[int], Router]] = {
    RoutingPolicy.ROUNDROBIN: RoundRobin,
    RoutingPolicy.SESSION: SessionHash,
}
"""From a policy to a function from the number of replicas to a fresh router."""
