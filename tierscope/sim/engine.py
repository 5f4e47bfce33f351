"""Engines step by step: queue, memory held by running requests, and when the first token comes.

A step of an engine computes one token of every decoding request and prompt tokens up to its budget, in the
order in which requests were admitted, and then admits who waits, first come first served, while there is
budget and memory. A prompt is matched when it is admitted, not when it comes. What the lower tiers hand up is
loaded beside the steps. Without memory for one more block the youngest request is thrown out and waits
again. Steps of decoding alone are taken many at once: nothing changes between them but the time they take.
What an engine tells of itself, its page and the blocks it stores, it tells when a step has ended.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array
from tierscope.sim.jobs import NOT_YET, Records, World
from tierscope.sim.lmcache import Found, look_up, release, store, touch
from tierscope.sim.memory import NAMELESS, PINNED, grow, leading, pin, unpin
from tierscope.traces.paths import Paths

FOREVER = np.inf


@njit(cache=True)
def submit(world: World, request: int, replica: int) -> None:
    """Put a request at the end of a replica's queue; one that no engine could ever hold is refused."""
    job, engine = world.jobs[request], world.engines[replica]
    if -(-(job.prompt + job.output) // world.block_tokens) > world.memory.capacity_blocks:
        return
    if engine.running == 0 and engine.waiting == 0:
        engine.clock = max(engine.clock, job.at_seconds)
    job.replica = replica
    job.total = job.prompt
    queue = world.queues[replica]
    queue[(engine.head + engine.waiting) % len(queue)] = request
    engine.waiting += 1


@njit(cache=True)
def advance(world: World, until: float) -> None:
    """Take steps, whichever engine's is next, until none begins before a time."""
    while True:
        chosen = -1
        for replica in range(len(world.engines)):
            engine = world.engines[replica]
            busy = engine.running > 0 or engine.waiting > 0
            if busy and (chosen < 0 or engine.clock < world.engines[chosen].clock):
                chosen = replica
        if chosen < 0 or world.engines[chosen].clock >= until:
            return
        _step(world, chosen, until)


@njit(cache=True)
def path_of(paths: Paths, request: int) -> Int32Array:
    """The ids of one request."""
    return paths.ids[paths.offsets[request] : paths.offsets[request + 1]]


@njit(cache=True)
def _step(world: World, replica: int, until: float) -> None:
    engine, times = world.engines[replica], world.times
    engine.began = engine.clock
    decoding, context = _decoding(world, replica)
    prefill, pairs = _plan_prefill(world, replica, times.step_tokens - decoding)
    if prefill == 0 and decoding == 0:
        _wait_for_loads(world, replica, until)
        return
    steps = 1
    if prefill == 0 and engine.waiting == 0:
        steps = _steps_alike(world, replica, context, until)
    engine.clock += steps * (
        times.step_seconds
        + prefill * times.prefill_seconds_per_token
        + pairs * times.attention_seconds_per_pair
        + (context + decoding * (steps - 1) / 2) * times.context_seconds_per_token
    )
    _end_step(world, replica, steps)


@njit(cache=True)
def _decoding(world: World, replica: int) -> tuple[int, int]:
    """Decoding requests, and the tokens of their context."""
    decoding = 0
    context = 0
    for i in range(world.engines[replica].running):
        job = world.jobs[world.running[replica, i]]
        job.taken = 0
        if job.left == 0:
            decoding += 1
            context += job.total
    return decoding, context


@njit(cache=True)
def _plan_prefill(world: World, replica: int, budget: int) -> tuple[int, float]:
    """Give the budget to prompts under way, then to those that can be admitted: tokens, and their pairs."""
    engine = world.engines[replica]
    left = budget
    pairs = 0.0
    i = 0
    while left > 0:
        if i == engine.running and not _admit(world, replica):
            break
        request = world.running[replica, i]
        job = world.jobs[request]
        if job.loading and job.ready_seconds <= engine.clock:
            _end_lookup(world, replica, request)
        if job.left and not job.loading:
            job.taken = min(job.left, left)
            pairs += job.taken * (job.total - job.left + job.taken / 2)
            left -= job.taken
        i += 1
    return budget - max(left, 0) if budget > 0 else 0, pairs


@njit(cache=True)
def _admit(world: World, replica: int) -> bool:
    """Admit the head of the queue, if there is one, a place and memory for it."""
    engine = world.engines[replica]
    if engine.waiting == 0 or engine.running == world.times.most_running:
        return False
    queue = world.queues[replica]
    request = queue[engine.head]
    if not _take_memory(world, replica, request):
        return False
    engine.head = (engine.head + 1) % len(queue)
    engine.waiting -= 1
    world.running[replica, engine.running] = request
    engine.running += 1
    world.jobs[request].taken = 0
    return True


@njit(cache=True)
def _take_memory(world: World, replica: int, request: int) -> bool:
    """Match a prompt in all tiers and pin its blocks; False without memory."""
    job, memory, size = world.jobs[request], world.memory, world.block_tokens
    path = path_of(world.paths, request)[: job.named]
    hit = leading(memory, replica, path, min((job.total - 1) // size, job.named))
    nameless = max(-(-job.total // size) - job.named, 0)
    if not pin(memory, replica, path, nameless):
        return False
    job.nameless = nameless
    clock = world.engines[replica].clock
    l1, l2 = _look_below(world, replica, request, hit * size)
    job.left = job.total - hit * size - l1 - l2
    job.loading = l1 + l2 > 0
    job.ready_seconds = clock + _load_seconds(world, l1, l2)
    if not job.loading:
        _end_lookup(world, replica, request)
    if job.admitted_seconds == NOT_YET:
        job.admitted_seconds = clock
        job.l0, job.l1, job.hit = hit, job.found_l1, job.found_hit
    return True


@njit(cache=True)
def _load_seconds(world: World, l1: int, l2: int) -> float:
    times = world.times
    seconds = l1 * times.l1_seconds_per_token + l2 * times.l2_seconds_per_token
    if l1:
        seconds += times.l1_fixed_seconds
    if l2:
        seconds += times.l2_fixed_seconds
    return seconds


@njit(cache=True)
def _look_below(world: World, replica: int, request: int, local: int) -> tuple[int, int]:
    """Tokens that L1 and L2 give beyond L0's."""
    job = world.jobs[request]
    at_ms = int(world.engines[replica].clock * 1000)
    found = look_up(world.shelves, world.rules, replica, path_of(world.chunks, request), at_ms)
    job.found_l1, job.found_hit, job.found_loaded = found.l1, found.hit, found.loaded
    l1 = max(min(found.l1 * world.chunk_tokens, job.total - 1) - local, 0)
    both = max(min(found.hit * world.chunk_tokens, job.total - 1) - local, 0)
    return l1, both - l1


@njit(cache=True)
def _end_lookup(world: World, replica: int, request: int) -> None:
    job = world.jobs[request]
    found = Found(job.found_l1, job.found_hit, job.found_loaded)
    release(world.shelves, world.rules, replica, path_of(world.chunks, request), found)
    job.loading = False


@njit(cache=True)
def _wait_for_loads(world: World, replica: int, until: float) -> None:
    """Nothing can be computed: go to when the first load is done, or another request may come."""
    engine = world.engines[replica]
    ready = until
    for i in range(engine.running):
        ready = min(ready, world.jobs[world.running[replica, i]].ready_seconds)
    engine.clock = max(engine.clock, ready)
    _write_page(world, replica)
    engine.shown_waiting, engine.shown_busy = engine.next_waiting, engine.next_busy


@njit(cache=True)
def _steps_alike(world: World, replica: int, context: int, until: float) -> int:
    """Decoding steps until a request ends, wants another block, has its load, or a new one may come."""
    engine, times, size = world.engines[replica], world.times, world.block_tokens
    most = size
    for i in range(engine.running):
        job = world.jobs[world.running[replica, i]]
        if job.left:
            until = min(until, job.ready_seconds)
        else:
            most = min(most, job.output - job.made, size - (job.total - 1) % size)
    if until < FOREVER:
        one = times.step_seconds + context * times.context_seconds_per_token
        most = min(most, int(np.ceil((until - engine.clock) / one)))
    return max(most, 1)


@njit(cache=True)
def _end_step(world: World, replica: int, steps: int) -> None:
    """Hand out what the step made, let go who has ended, and find memory for what comes next."""
    engine = world.engines[replica]
    kept = 0
    for i in range(engine.running):
        request = world.running[replica, i]
        job = world.jobs[request]
        if job.left == 0:
            job.total += steps
            job.made += steps
        elif job.taken:
            job.left -= job.taken
            if job.left == 0:
                _first_token(world, replica, request)
        if job.left == 0 and job.made >= job.output:
            unpin(world.memory, replica, path_of(world.paths, request), job.named, job.nameless)
            touch(world.shelves, replica, path_of(world.chunks, request))
            job.ended_seconds = engine.clock
        else:
            world.running[replica, kept] = request
            kept += 1
    engine.running = kept
    i = 0
    while i < engine.running:
        if _has_room(world, replica, world.jobs[world.running[replica, i]]):
            i += 1
        else:
            _throw_out_youngest(world, replica)
    engine.shown_waiting, engine.shown_busy = engine.next_waiting, engine.next_busy
    _write_page(world, replica)


@njit(cache=True)
def _write_page(world: World, replica: int) -> None:
    """What its page tells from the engine's clock on; blocks that are cached but in nobody's use are free."""
    engine, counts = world.engines[replica], world.memory.counts[replica]
    engine.next_waiting = engine.waiting
    engine.next_busy = counts[PINNED] + counts[NAMELESS]


@njit(cache=True)
def _first_token(world: World, replica: int, request: int) -> None:
    """A prompt is computed: its token is out, and its chunks go to the lower tiers."""
    job = world.jobs[request]
    clock = world.engines[replica].clock
    if np.isnan(job.ttft_seconds):
        job.ttft_seconds = clock - job.at_seconds + world.times.api_seconds
    job.total += 1
    job.made += 1
    chunks = path_of(world.chunks, request)[job.found_hit :]
    store(world.shelves, world.rules, replica, chunks, int(clock * 1000))


@njit(cache=True)
def _has_room(world: World, replica: int, job: Records) -> bool:
    """Give a decoding request the block of its next token, unless it has it; False without memory."""
    lacking = -(-job.total // world.block_tokens) - job.named - job.nameless
    if job.left or lacking <= 0:
        return True
    if not grow(world.memory, replica, lacking):
        return False
    job.nameless += lacking
    return True


@njit(cache=True)
def _throw_out_youngest(world: World, replica: int) -> None:
    """Take the youngest request's memory away; it waits at the head of the queue with what it has said."""
    engine = world.engines[replica]
    engine.running -= 1
    request = world.running[replica, engine.running]
    job = world.jobs[request]
    if job.loading:
        _end_lookup(world, replica, request)
    unpin(world.memory, replica, path_of(world.paths, request)[: job.named], job.named, job.nameless)
    queue = world.queues[replica]
    engine.head = (engine.head - 1) % len(queue)
    queue[engine.head] = request
    engine.waiting += 1
