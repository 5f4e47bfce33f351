"""Laws of the engine model that hold for any traffic on any deployment, however small."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tierscope.domain.requests import TokenSplit
from tierscope.testbed.config import Faults, Restart, ServiceTimes, TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.model.l0 import Stored
from tierscope.testbed.workload.hashes import Chain
from tierscope.testbed.workload.request import Request

ROOT = 7
LAWS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Script:
    """A workload of given requests."""

    def __init__(self, requests):
        self._requests = iter(requests)

    def next_arrival(self):
        return next(self._requests, None)

    def follow_up(self, request, finished_seconds):
        return None


@dataclass
class Watcher:
    """An observer that checks each admission and keeps what it saw."""

    fleet: Fleet | None = None
    index: int = 0
    admitted_: list[tuple[str, int, TokenSplit]] = field(default_factory=list)
    firsts: list[str] = field(default_factory=list)
    ends: Counter = field(default_factory=Counter)
    aborted: set[str] = field(default_factory=set)
    resident: Counter = field(default_factory=Counter)
    log: list[tuple] = field(default_factory=list)

    def catch_up(self):
        """Apply what the pool said to our own picture of what is resident."""
        pool = self.fleet.engines[self.index].pool
        for change in pool.changes:
            for value in change.hashes:
                self.resident[value] += 1 if isinstance(change, Stored) else -1
                assert self.resident[value] >= 0
        pool.changes.clear()
        self.resident = +self.resident
        assert self.resident.total() == pool.cached_blocks <= pool.blocks

    def admitted(self, task, at_seconds):
        request = task.request
        hit = task.local // BLOCK
        computed = task.total - task.local - task.l1 - task.l2
        split = TokenSplit(task.total, l0=task.local, l1=task.l1, l2=task.l2, computed=computed)
        self.catch_up()
        assert task.local % BLOCK == 0
        assert computed >= 1
        assert all(self.resident[value] for value in request.hashes[:hit]), "a hit must be resident"
        if (hit + 1) * BLOCK < task.total and hit < len(request.hashes):
            assert not self.resident[request.hashes[hit]], "the first block beyond a hit was resident"
        self.admitted_.append((request.request_id, task.attempt, split))
        self.log.append((at_seconds, "admit", request.request_id, task.attempt, split))

    def loaded(self, task, at_seconds, waited_seconds):
        assert task.external > 0
        self.log.append((at_seconds, "loaded", task.request.request_id, waited_seconds))

    def first(self, task, at_seconds):
        self.firsts.append(task.request.request_id)
        self.log.append((at_seconds, "first", task.request.request_id))

    def finished(self, task, at_seconds, *, generated, aborted):
        self.ends[task.request.request_id] += 1
        if aborted:
            self.aborted.add(task.request.request_id)
        else:
            assert generated == task.request.output_tokens
        self.log.append((at_seconds, "finish", task.request.request_id, generated))


BLOCK = 4


@st.composite
def traffic(draw):
    """Requests that share prefixes, at rising times, some of whose clients go away."""
    at, requests = 0.0, []
    for number in range(draw(st.integers(1, 25))):
        at += draw(st.floats(0, 0.6))
        chain = Chain()
        for content in draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)):
            chain.grow(root=ROOT, content=content, blocks=len(chain) + draw(st.integers(1, 4)))
        output = draw(st.integers(1, 14))
        prompt = max(1, len(chain) * BLOCK - draw(st.integers(0, BLOCK - 1)))
        chain = chain.prefix(prompt // BLOCK)
        chain.grow(root=ROOT, content=100 + number, blocks=(prompt + output - 1) // BLOCK)
        requests.append(
            Request(
                request_id=f"request-{number}",
                session=f"session-{number}",
                at_seconds=at,
                prompt_tokens=prompt,
                output_tokens=output,
                hashes=chain.hashes,
                digests=chain.digests[: prompt // BLOCK],
                abort_after_seconds=draw(st.none() | st.none() | st.floats(0, 1.5)),
            )
        )
    return requests


@st.composite
def deployments(draw):
    """Deployments so small that they evict, refuse and preempt."""
    chunk_bytes = 2 * BLOCK
    return TestbedConfig(
        seed=draw(st.integers(0, 3)),
        replicas=draw(st.integers(1, 3)),
        block_tokens=BLOCK,
        chunk_tokens=draw(st.sampled_from([BLOCK, 2 * BLOCK])),
        bytes_per_token=1,
        l0_bytes=BLOCK * draw(st.integers(5, 24)),
        l1_bytes=chunk_bytes * draw(st.integers(0, 8)),
        l2_bytes=chunk_bytes * draw(st.integers(0, 16)),
        l2_block_bytes=0,
        l2_ttl_seconds=draw(st.none() | st.sampled_from([1.0, 4.0])),
        l2_ttl_check_seconds=1.0,
        l1_watermark_ratio=draw(st.sampled_from([0.5, 0.8, 1.0])),
        l1_eviction_ratio=draw(st.sampled_from([0.25, 1.0])),
        l1_retain_loads=draw(st.booleans()),
        store_batch_chunks=draw(st.integers(1, 3)),
        slots=draw(st.integers(1, 4)),
        service=ServiceTimes(l1_bytes_per_second=100.0, l2_bytes_per_second=40.0),
        duration_seconds=None,
        faults=Faults(
            restarts=tuple(
                Restart(replica=0, at_seconds=at) for at in draw(st.lists(st.floats(0, 10), max_size=2))
            )
        ),
    )


def watched(config, requests) -> tuple[Fleet, list[Watcher]]:
    """A fleet with a watcher at every engine."""
    watchers = [Watcher(index=index) for index in range(config.replicas)]

    def restarted(index):
        watchers[index].resident.clear()

    fleet = Fleet(config, Script(requests), observe=lambda index: watchers[index], restarted=restarted)
    for watcher in watchers:
        watcher.fleet = fleet
    return fleet, watchers


def run(config, requests) -> tuple[Fleet, list[Watcher]]:
    fleet, watchers = watched(config, requests)
    fleet.run_out()
    return fleet, watchers


@given(deployments(), traffic())
@LAWS
def test_every_request_ends_once_and_every_block_comes_back(config, requests):
    """Whatever is refused, preempted, aborted or restarted, nothing hangs and no block stays pinned."""
    fleet, watchers = run(config, requests)

    ends = sum((watcher.ends for watcher in watchers), Counter())
    assert fleet.finished
    assert set(ends.values()) <= {1}
    if not config.faults.restarts:
        assert len(ends) == fleet.requests
    assert fleet.requests + fleet.refused_requests == len(requests)
    for engine in fleet.engines:
        assert engine.pool.free_blocks == engine.pool.blocks
        assert engine.running == engine.waiting == 0


@given(deployments(), traffic())
@LAWS
def test_prompts_are_conserved_in_records_and_on_the_page(config, requests):
    """Counted prompts split into four parts that add up, and the counters are the records' sums."""
    fleet, watchers = run(config, requests)

    for watcher, engine in zip(watchers, fleet.engines, strict=True):
        if config.faults.restarts:
            continue
        admitted = {rid: split for rid, attempt, split in watcher.admitted_ if attempt == 0}
        counted = [admitted[rid] for rid in watcher.firsts]
        counters = engine.counters
        assert len(set(watcher.firsts)) == len(watcher.firsts) == sum(counters.ttft_counts)
        assert counters.prompt == sum(split.prompt for split in counted)
        assert counters.local_hit == sum(split.l0 for split in counted)
        assert counters.external_transfer == sum(split.l1 + split.l2 for split in counted)
        assert counters.local_compute == sum(split.computed for split in counted)
        assert counters.queried == sum(split.prompt for split in admitted.values())
        assert counters.hit_l0 == sum(split.l0 for split in admitted.values())
        assert counters.hit_l1 == sum(split.l1 for split in admitted.values())
        assert counters.hit_l2 == sum(split.l2 for split in admitted.values())
        assert counters.external_queried == counters.queried - counters.hit_l0
        assert counters.preemptions >= sum(attempt > 0 for _, attempt, _ in watcher.admitted_)
        prompts = {request.request_id: request.prompt_tokens for request in requests}
        assert all(split.prompt == prompts[rid] for rid, split in admitted.items())


@given(deployments(), traffic())
@LAWS
def test_no_tier_holds_more_than_it_can_and_all_that_came_either_left_or_is_there(config, requests):
    """Stored minus removed is what is resident, in every tier, at every step."""
    fleet, watchers = watched(config, requests)

    while not fleet.finished:
        fleet.run_until(fleet.schedule.now_seconds + 0.5)
        for watcher, engine in zip(watchers, fleet.engines, strict=True):
            watcher.catch_up()
            counters, cache = engine.cache.counters, engine.cache
            assert counters.written - counters.evicted == cache.used_chunks <= cache.capacity_chunks
            assert (
                counters.hit_l1_chunks + counters.hit_l2_chunks
                == (counters.hit_l1_tokens + counters.hit_l2_tokens) // cache.chunk_tokens
            )
            assert counters.hit_l2_chunks == counters.loaded
        pool = fleet.pool
        assert pool.counters.written - pool.counters.expired == len(pool) == sum(pool.files_of_worker)
        assert pool.used_bytes <= pool.capacity_bytes
    assert all(engine.cache.used_chunks == engine.cache.resident_chunks for engine in fleet.engines)


@given(deployments(), traffic())
@LAWS
def test_the_same_seed_does_the_same(config, requests):
    """Two runs of one configuration say the same at the same virtual times, however they are cut."""
    _, whole = run(config, requests)
    fleet, pieces = watched(config, requests)
    while not fleet.finished:
        fleet.run_until(fleet.schedule.now_seconds + 0.125)

    assert [watcher.log for watcher in whole] == [watcher.log for watcher in pieces]
