"""Advise on the sizes for a drawn day of sessions: `python -m tests.sized_day SESSIONS`, and print the cost.

A session has eight prompts, each twenty blocks longer than the last, behind forty blocks that it shares with
others: popular ones are shared by very many.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

import numpy as np

from tests.memory import forget_peak, peak_bytes, resident_bytes
from tierscope.advice.recommend import recommend
from tierscope.advice.replay import as_modelled
from tierscope.advice.routing.study import compare
from tierscope.domain.deployment import Deployment, RoutingPolicy, TierConfig
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan

DAY = 86_400.0
TURNS, SHARED_BLOCKS, ADDED_BLOCKS = 8, 40, 20
BLOCK_TOKENS, CHUNK_TOKENS, REPLICAS = 32, 256, 4
BATCH = 20_000
DEPLOYMENT = Deployment(
    "default",
    "demo",
    "qwen2.5-7b",
    REPLICAS,
    RoutingPolicy.SESSION,
    (TierConfig(Tier.L0, 4 * GIB), TierConfig(Tier.L1, 32 * GIB), TierConfig(Tier.L2, 512 * GIB)),
    bytes_per_token=57_344,
    l1_keeps_loads=True,
)


def day(sessions: int, rng: np.random.Generator) -> Evidence:
    """Draw a day, and let the modelled tiers of `DEPLOYMENT` serve it."""
    n = sessions * TURNS
    session, turn = np.repeat(np.arange(sessions), TURNS), np.tile(np.arange(TURNS), sessions)
    at = np.repeat(rng.uniform(0, DAY, sessions), TURNS) + turn * rng.exponential(60, n)
    order = np.argsort(at, kind="stable")
    session, turn, at = session[order], turn[order], at[order]
    shared = (rng.pareto(1.0, sessions) * 3).astype(np.int64) % 400
    lengths = SHARED_BLOCKS + ADDED_BLOCKS * (turn + 1)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    prompt, nothing, unknown = lengths * BLOCK_TOKENS + 7, np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    window = RequestWindow(
        span=TimeSpan(0.0, float(at[-1]) + 1),
        engines=tuple(EngineId("default", "demo", f"demo-{i}") for i in range(REPLICAS)),
        models=(DEPLOYMENT.model,),
        block_tokens=BLOCK_TOKENS,
        chunk_tokens=CHUNK_TOKENS,
        at_unix_seconds=at,
        model=np.zeros(n, dtype=np.int32),
        engine=(session % REPLICAS).astype(np.int32),
        session=(session + 1).astype(np.uint64),
        prompt=prompt,
        l0=nothing,
        l1=nothing,
        l2=nothing,
        external=nothing,
        computed=prompt,
        queue_seconds=np.zeros(n),
        load_seconds=unknown,
        ttft_seconds=unknown,
        offsets=offsets,
        block_hashes=_hashes(session, shared, lengths, offsets),
    )
    source = SourceId(SourceKind.VLLM_HOOK, "drawn")
    covered = SourceCoverage(source, 1, 0.0, DAY, received=n, missing=0)
    served = as_modelled(Evidence(replace(window, coverage=(covered,)), ()), DEPLOYMENT)
    ttft = 0.05 + served.window.computed * 1e-4 + served.window.l1 * 2e-6 + served.window.l2 * 3e-5
    timed = replace(served.window, ttft_seconds=ttft * rng.lognormal(0, 0.1, n))
    return replace(served, window=timed)


def _hashes(session, shared, lengths, offsets) -> np.ndarray:
    """A name for each block: of what is shared by what it is, else by whose it is."""
    hashes = np.empty(offsets[-1], np.uint64)
    for first in range(0, len(session), BATCH):
        last = min(first + BATCH, len(session))
        length = lengths[first:last]
        whose = np.repeat(session[first:last], length)
        start, end = offsets[first], offsets[last]
        place = np.arange(start, end) - np.repeat(offsets[first:last], length)
        key = np.where(place < SHARED_BLOCKS, 10**12 + shared[whose] * 1000 + place, whose * 1000 + place)
        hashes[start:end] = _mixed(key.astype(np.uint64))
    return hashes


def _mixed(keys: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer: numbers that look drawn."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def main() -> None:
    """Size a small day first, and compare routers on it, so that nothing is compiled meanwhile."""
    small = day(1000, np.random.default_rng(1))
    recommend(small, DEPLOYMENT, now_unix_seconds=DAY)
    compare(small, DEPLOYMENT, now_unix_seconds=DAY)
    evidence = day(int(sys.argv[1]), np.random.default_rng(1))
    forget_peak()
    before, watch = resident_bytes(), Stopwatch()
    document = recommend(evidence, DEPLOYMENT, now_unix_seconds=DAY)
    seconds, core_seconds = watch.read()
    held = peak_bytes() - before
    print(
        f"{evidence.window.accesses} {seconds:.2f} {held} block accesses, seconds, bytes beside the window "
        f"of {before / 2**30:.2f} GiB; {core_seconds:.2f} seconds of a core; load {os.getloadavg()[0]:.0f}; "
        f"{document.status.value}: {[change.id for change in document.changes]}"
    )
    watch = Stopwatch()
    compared = compare(evidence, DEPLOYMENT, now_unix_seconds=DAY)
    seconds, core_seconds = watch.read()
    assert not isinstance(compared, str), compared
    print(
        f"routers compared on {compared.sampled_ratio:.1%} of the requests in {seconds:.1f} s, "
        f"{core_seconds:.1f} s of a core: {len(compared.others)} others than today's"
    )


class Stopwatch:
    """Seconds, and seconds of a core, since it was made."""

    def __init__(self) -> None:
        self._began, self._spent = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._began, time.process_time() - self._spent


if __name__ == "__main__":
    main()
