"""Who serves a request: one file a router, each as blind as the real one.

Three decide from what they were asked before and place a whole trace at once: `place(arrivals, replicas,
rng)`. Two look at the fleet as it is when a request comes, and are asked by the engine model: `pick(…)`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.trace import Int32Array
from tierscope.sim.routers import prefixaware, roundrobin, session
from tierscope.sim.routers.arrivals import Arrivals, some

Place = Callable[[Arrivals, int, np.random.Generator], Int32Array]

PLACING: dict[RoutingPolicy, Place] = {
    RoutingPolicy.ROUNDROBIN: roundrobin.place,
    RoutingPolicy.SESSION: session.place,
    RoutingPolicy.PREFIXAWARE: prefixaware.place,
}
PICKING = (RoutingPolicy.KVAWARE, RoutingPolicy.GATEWAY)


def place(
    policy: RoutingPolicy,
    arrivals: Arrivals,
    replicas: int,
    rng: np.random.Generator,
    *,
    routers: int = 1,
) -> Int32Array:
    """The replica of each request by a router that looks at no engine: (n,).

    Several router replicas share nothing: a service spreads requests over them at random, and each goes by
    what it was asked itself.
    """
    if routers == 1:
        return PLACING[policy](arrivals, replicas, rng)
    placement = np.zeros(len(arrivals.at_ms), np.int32)
    router_of = rng.integers(0, routers, len(placement))
    for router in range(routers):
        mine = np.flatnonzero(router_of == router)
        placement[mine] = PLACING[policy](some(arrivals, mine), replicas, rng)
    return placement
