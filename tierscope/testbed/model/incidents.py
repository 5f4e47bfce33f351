"""What befalls a deployment on the way: each incident changes one thing of the fleet, for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tierscope.testbed.config import Incident, IncidentKind
from tierscope.testbed.model.engine import Engine
from tierscope.testbed.model.l2 import Pool
from tierscope.testbed.workload.hashes import mix

SEED = 0x5EED


def befall(incident: Incident, engines: Sequence[Engine], pool: Pool, at_seconds: float) -> None:
    """Change engines, their caches or the pool. The router is the fleet's own and not changed here."""
    if incident.kind is IncidentKind.L2_WORKER_LOST:
        _lose_worker(engines, pool)
    for index, engine in enumerate(engines):
        _befall_engine(incident, engine, index, at_seconds)


def _lose_worker(engines: Sequence[Engine], pool: Pool) -> None:
    """Its chunks and room go, and its part of the bandwidth: a load comes from all workers at once."""
    before = len(pool.files_of_worker)
    pool.lose_worker()
    left = len(pool.files_of_worker) / before
    for engine in engines:
        times = engine.service.times
        engine.service.times = replace(times, l2_bytes_per_second=times.l2_bytes_per_second * left)


def _befall_engine(incident: Incident, engine: Engine, index: int, at_seconds: float) -> None:
    times, factor = engine.service.times, incident.factor
    match incident.kind:
        case IncidentKind.L2_SLOW:
            engine.service.times = replace(
                times,
                l2_bytes_per_second=times.l2_bytes_per_second / factor,
                l2_seconds_per_chunk=times.l2_seconds_per_chunk * factor,
            )
        case IncidentKind.ENGINE_SLOW:
            engine.service.times = replace(
                times,
                prefill_seconds_per_token=times.prefill_seconds_per_token * factor,
                fixed_seconds=times.fixed_seconds * factor,
            )
        case IncidentKind.L1_SHRUNK:
            engine.cache.resize(int(engine.cache.capacity_chunks / factor), at_seconds)
        case IncidentKind.SEED_MISMATCH:
            engine.chunk_seed = mix(SEED, index)
        case IncidentKind.QUEUE:
            engine.slots = max(1, int(engine.slots / factor))
        case IncidentKind.L2_WORKER_LOST | IncidentKind.ROUTER_CHANGED:
            pass
