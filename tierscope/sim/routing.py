"""Requests on their way to an engine: who decides, and what it goes by at that moment."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from tierscope.sim.engine import FOREVER, advance, path_of, submit
from tierscope.sim.jobs import World
from tierscope.sim.memory import Memory
from tierscope.sim.routers import gateway, kvaware
from tierscope.sim.routers.gateway import Weights
from tierscope.sim.routers.kvaware import NOBODY
from tierscope.sim.routers.least_asked import Asked, count, least_asked

PLACED, KVAWARE, GATEWAY = 0, 1, 2
"""Who decides: a router that looks at no engine did, before; or one that does."""


class Router(NamedTuple):
    """A router while it works; `remembered` is the gateway's own memory, `remembered_blocks` of a prompt.

    A `precise` one is told of each block that engines store and evict, and goes by what they hold.
    """

    kind: int
    weights: Weights
    precise: bool
    remembered: Memory
    remembered_blocks: int
    asked: Asked


@njit(cache=True, nogil=True)
def run(world: World, router: Router) -> None:
    """Serve every request; what came of each stands in its job."""
    for request in range(len(world.jobs)):
        at_seconds = world.jobs[request].at_seconds
        advance(world, at_seconds)
        replica = _picked(world, router, request)
        if replica == NOBODY:
            replica = world.jobs[request].fallback
        if replica == NOBODY:
            replica = least_asked(router.asked, int(at_seconds * 1000))
        count(router.asked, replica, int(at_seconds * 1000))
        submit(world, request, replica)
    advance(world, FOREVER)


@njit(cache=True)
def _picked(world: World, router: Router, request: int) -> int:
    """The replica that the router finds for a request, or NOBODY."""
    job = world.jobs[request]
    if router.kind == KVAWARE:
        chunks = path_of(world.chunks, request)
        return kvaware.pick(world.shelves, chunks, job.prompt, world.chunk_tokens)
    if router.kind == GATEWAY:
        path = path_of(world.paths, request)[: min(job.named, router.remembered_blocks)]
        index = world.memory if router.precise else router.remembered
        replica = gateway.pick(router.weights, world.engines.waiting, world.memory, index, path, job.draw)
        if not router.precise:
            gateway.learn(router.remembered, replica, path)
        return replica
    return int(job.placement)
