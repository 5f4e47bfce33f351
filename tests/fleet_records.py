"""What a testbed's fleet records, as evidence, without a socket in between."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.missing_truth import Truth
from tierscope.domain.events import SourceCoverage, TierSample
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.names import Beginning
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.model.task import Task
from tierscope.testbed.workload.mixed import MixedWorkload

READING_SECONDS = 30.0


class Recorder:
    """Sits in one engine and writes a row at each first token of a first admission."""

    def __init__(self, engine: int, rows: list[tuple]) -> None:
        self._engine, self._rows = engine, rows
        self._open: dict[str, tuple] = {}
        self._loads: dict[str, float] = {}

    def admitted(self, task: Task, at_seconds: float) -> None:
        if task.attempt == 0:
            self._open[task.request.request_id] = (at_seconds, self._engine, *task.credited)

    def loaded(self, task: Task, at_seconds: float, waited_seconds: float) -> None:
        self._loads[task.request.request_id] = waited_seconds

    def first(self, task: Task, at_seconds: float) -> None:
        request = task.request
        row = self._open.pop(request.request_id, None)
        if row is not None:
            load = self._loads.pop(request.request_id, np.nan)
            queue = row[0] - request.at_seconds
            self._rows.append((*row, load, queue, at_seconds - request.at_seconds, request))

    def finished(self, task: Task, at_seconds: float, *, generated: int, aborted: bool) -> None:
        self._open.pop(task.request.request_id, None)


class Witness(Recorder):
    """A recorder that asks a truth why a request's tokens are computed."""

    def __init__(self, engine: int, rows: list[tuple], truth: Truth) -> None:
        super().__init__(engine, rows)
        self._truth = truth

    def admitted(self, task: Task, at_seconds: float) -> None:
        super().admitted(task, at_seconds)
        if task.attempt == 0:
            self._truth.admitted(self._engine, task)


def run_fleet(config: TestbedConfig, truth: Truth | None = None) -> Evidence:
    """Run a configuration's own workload to its end in virtual time; `truth` watches."""
    rows: list[tuple] = []
    workload = MixedWorkload.of(config)
    fleet = Fleet(
        config,
        workload,
        observe=lambda index: Witness(index, rows, truth) if truth else Recorder(index, rows),
        watch=lambda index: truth.servers[index] if truth else None,
    )
    if truth:
        truth.fleet = fleet
    samples, now = [], 0.0
    while not fleet.finished:
        now += READING_SECONDS
        fleet.run_until(now)
        samples += _readings(fleet, config, now)
    rows.sort(key=lambda row: row[0])
    if truth:
        truth.requests = [truth.of[row[-1].request_id] for row in rows]
    source = SourceId(SourceKind.VLLM_HOOK, "fleet")
    covered = SourceCoverage(source, 1, 0.0, now, received=len(rows), missing=0)
    window = replace(_window(rows, config, now), coverage=(covered,))
    return Evidence(window, tuple(samples), _beginnings(window, [one.chunk_seed for one in fleet.engines]))


def _readings(fleet: Fleet, config: TestbedConfig, at: float) -> list[TierSample]:
    l1 = [
        TierSample(
            Tier.L1, f"lmcache-{i}", at, config.l1_bytes, engine.cache.used_chunks * config.chunk_bytes
        )
        for i, engine in enumerate(fleet.engines)
    ]
    return [*l1, TierSample(Tier.L2, "pool", at, config.l2_bytes, fleet.pool.used_bytes)]


def _beginnings(window: RequestWindow, seeds: Sequence[int]) -> tuple[Beginning, ...]:
    """What engines and their servers, each with a seed that it had from the start, call first chunks."""
    blocks = window.chunk_tokens // window.block_tokens
    whole = np.flatnonzero(np.diff(window.offsets) >= blocks)
    told = zip(
        window.engine[whole].tolist(),
        window.block_hashes[window.offsets[whole] + blocks - 1].tolist(),
        strict=True,
    )
    return tuple(
        Beginning(
            engine=window.engines[engine],
            server=f"lmcache-{engine}",
            model="m",
            block_tokens=window.block_tokens,
            chunk_tokens=window.chunk_tokens,
            block_hash=block,
            chunk_hash=block ^ seeds[engine],
            of_tokens_alone=True,
        )
        for engine, block in dict.fromkeys(told)
    )


def _window(rows: list[tuple], config: TestbedConfig, end: float) -> RequestWindow:
    requests = [row[-1] for row in rows]
    chains = [
        np.array(request.hashes[: request.prompt_tokens // config.block_tokens], dtype=np.uint64)
        for request in requests
    ]
    prompt = np.array([request.prompt_tokens for request in requests], dtype=np.int64)
    l0, l1, l2 = (np.array([row[k] for row in rows], dtype=np.int64) for k in (2, 3, 4))
    load, queue, ttft = (np.array([row[k] for row in rows], dtype=np.float64) for k in (5, 6, 7))
    return RequestWindow(
        span=TimeSpan(0.0, end),
        engines=tuple(
            EngineId(config.namespace, config.endpoint, config.replica_name(i))
            for i in range(config.replicas)
        ),
        models=("m",),
        block_tokens=config.block_tokens,
        chunk_tokens=config.tokens_per_chunk,
        at_unix_seconds=np.array([row[0] for row in rows]),
        engine=np.array([row[1] for row in rows], dtype=np.int32),
        model=np.zeros(len(rows), dtype=np.int32),
        session=np.array([_session(request.session) for request in requests], dtype=np.uint64),
        prompt=prompt,
        l0=l0,
        l1=l1,
        l2=l2,
        external=np.zeros(len(rows), dtype=np.int64),
        computed=prompt - l0 - l1 - l2,
        queue_seconds=queue,
        load_seconds=load,
        ttft_seconds=ttft,
        offsets=np.concatenate(([0], np.cumsum([len(chain) for chain in chains])), dtype=np.int64),
        block_hashes=np.concatenate(chains),
    )


def _session(name: str) -> int:
    """A session's number, the same in every run."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
