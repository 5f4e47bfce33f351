"""Requests on their way to an engine: who decides, and what it goes by at that moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.trace import FloatArray, Int32Array
from tierscope.sim.engine import FOREVER, advance, path_of, submit
from tierscope.sim.jobs import World
from tierscope.sim.memory import Memory, leading
from tierscope.sim.routers import gateway, kvaware
from tierscope.sim.routers.gateway import Weights
from tierscope.sim.routers.kvaware import NOBODY
from tierscope.sim.routers.least_asked import Asked, count, least_asked
from tierscope.sim.routers.pages import REFRESH_SECONDS, Pages, read, reading_at, stored_blocks

PLACED, KVAWARE, GATEWAY = 0, 1, 2
"""Who decides: a router that looks at no engine did, before; or one that does."""


class Router(NamedTuple):
    """A router while it works; `remembered` is the gateway's own memory, `remembered_blocks` of a prompt.

    `remembered` has every replica once for each of several gateways. `pages` is what they last read of the
    engines. A `precise` one is told of each block that engines store and evict, and goes by what they hold.
    `most_open` requests may be under way at once, whoever decides.
    """

    kind: int
    weights: Weights
    precise: bool
    relative: bool
    remembered: Memory
    remembered_blocks: int
    pages: Pages
    asked: Asked
    most_open: int


@njit(cache=True, nogil=True)
def run(world: World, router: Router) -> None:
    """Serve every request; what came of each stands in its job."""
    for request in range(len(world.jobs)):
        at_seconds = world.jobs[request].at_seconds
        if router.kind == GATEWAY:
            _read_pages(world, router, at_seconds)
        advance(world, at_seconds)
        if _open(world) >= router.most_open:
            continue
        replica = _picked(world, router, request)
        if replica == NOBODY:
            replica = world.jobs[request].fallback
        if replica == NOBODY:
            replica = least_asked(router.asked, int(at_seconds * 1000))
        count(router.asked, replica, int(at_seconds * 1000))
        submit(world, request, replica)
    advance(world, FOREVER)


@njit(cache=True)
def _open(world: World) -> int:
    """Requests that wait or run."""
    found = 0
    for engine in world.engines:
        found += engine.waiting + engine.running
    return found


@njit(cache=True)
def _read_pages(world: World, router: Router, at_seconds: float) -> None:
    """Bring a gateway's reading up to date: engines go on as far as it, and then are read."""
    reading = reading_at(at_seconds)
    if reading > router.pages.reading[0]:
        advance(world, reading * REFRESH_SECONDS)
        read(router.pages, world, reading)


@njit(cache=True)
def _picked(world: World, router: Router, request: int) -> int:
    """The replica that the router finds for a request, or NOBODY."""
    job = world.jobs[request]
    if router.kind == KVAWARE:
        chunks = path_of(world.chunks, request)
        return kvaware.pick(world.shelves, chunks, job.prompt, world.chunk_tokens)
    if router.kind == GATEWAY:
        path = path_of(world.paths, request)[: min(job.named, router.remembered_blocks)]
        busy = router.pages.busy / max(world.memory.capacity_blocks, 1)
        known = _known(world, router, path, job.at_seconds, job.gateway)
        replica = gateway.pick(router.weights, router.pages.waiting, busy, known, job.draw)
        if not router.precise:
            gateway.learn(router.remembered, job.gateway * len(world.engines) + replica, path)
        return replica
    return int(job.placement)


@njit(cache=True)
def _known(world: World, router: Router, path: Int32Array, at_seconds: float, which: int) -> FloatArray:
    """How much of a path one of the gateways takes each replica to have, 0 to 1: (replicas,)."""
    known = np.zeros(len(world.engines))
    for replica in range(len(known) if len(path) else 0):
        if router.precise:
            known[replica] = stored_blocks(world, replica, path, at_seconds) / len(path)
        else:
            mine = which * len(known) + replica
            known[replica] = leading(router.remembered, mine, path, len(path)) / len(path)
    if router.relative:
        gateway.spread(known)
    return known
