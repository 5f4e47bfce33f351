"""What the probe costs a real LMCache server: its time against lookups and retrieves, a flood, and pairs.

python -m tests.engines.lmcache_overhead          prints the figures of docs/measurements.md as JSON
python -m tests.engines.lmcache_overhead pairs    prints the table of servers with the probe and without
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.engines.hook import addresses
from tests.engines.lmcache_environment import LMCacheEnvironment, lmcache_environment
from tests.engines.lmcache_records import read_settled
from tests.engines.lmcache_server import CHUNK_TOKENS, ENVIRONMENT, LMCacheClient, LMCacheServer
from tests.engines.page import Page
from tests.engines.pairs import Ratio, in_turn, ratios, table
from tests.engines.server import eventually

LOAD = Path(__file__).parent / "lmcache_bus_load.py"
LOOKUPS_PER_SECOND = 1_000
FLOOD_SECONDS = 30
CHUNKS = 16
PROMPTS = 40
ROUNDS = 5
PROMPTS_A_BURST = 12
ASKED_AGAIN = 4
BURSTS_IN_L1 = 8
PAIRS = 24
PAIRS_A_LIFE = 4
KINDS = ("with", "without", "another without")
FIGURES = ("time of a burst", "median time of a request", "the server's processor time of a burst")
QUIET_SECONDS = 120.0


def share(environment: LMCacheEnvironment, folder: Path) -> dict[str, float]:
    """Time in the bus's thread that was ours, against the time of lookups and retrieves."""
    prompts = _prompts(1, PROMPTS)
    with LMCacheServer(environment, folder, l1_chunks=2 * PROMPTS * CHUNKS) as server:
        with server.client() as client:
            for number in range(ROUNDS * PROMPTS):
                client.ask(f"ask-{number}", prompts[number % PROMPTS])
        records = read_settled(server, addresses(server.addresses))
    lookups = [record for record in records if record["t"] == "lookup"]
    retrieves = [r for r in records if r["t"] == "transfer" and r["direction"] == "retrieve"]
    last = [record for record in records if record["t"] == "stats"][-1]
    busy_seconds = sum(record["end"] - record["start"] for record in (*lookups, *retrieves))
    return {
        "lookups": len(lookups),
        "retrieves": len(retrieves),
        "lookup_and_retrieve_seconds": busy_seconds,
        "events": last["events"],
        "us_an_event": last["ns"] / last["events"] / 1000,
        "probe_seconds": last["ns"] / 1e9,
        "ratio": last["ns"] / 1e9 / busy_seconds,
        "bus_dropped": last["bus_dropped"],
    }


def flood(environment: LMCacheEnvironment) -> dict[str, float]:
    """So many lookups a second into the real bus."""
    command = [environment.python, LOAD, LOOKUPS_PER_SECOND, FLOOD_SECONDS, CHUNKS]
    environ = {**os.environ, **ENVIRONMENT}
    environ.pop("PYTHONPATH", None)
    answer = subprocess.run(
        [str(part) for part in command], env=environ, capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Asked:
    """A server and the worker that asks it."""

    server: LMCacheServer
    client: LMCacheClient

    def burst(self, number: int) -> tuple[float, float, float]:
        """Ask for prompts that nobody asked for before, and again; return what that took.

        The time of all of them, the median of one, and the time the server's threads had a processor, in
        seconds. It begins and ends with nothing left to write to L2, and with the same work done by whoever
        is asked.
        """
        self._await_quiet()
        prompts = _prompts(f"burst {number}", PROMPTS_A_BURST)
        latencies: list[float] = []
        began, busy_seconds = time.perf_counter(), self.server.processor_seconds()
        for turn in range(1 + ASKED_AGAIN):
            for prompt in prompts:
                asked_at = time.perf_counter()
                answer = self.client.ask(f"burst-{number}-{turn}-{len(latencies)}", prompt)
                latencies.append(time.perf_counter() - asked_at)
                done = answer["retrieved_tokens" if turn else "stored_tokens"]
                assert done == len(prompt), f"{answer} is not what the others do"
        took_seconds = time.perf_counter() - began
        self._await_quiet()
        return took_seconds, statistics.median(latencies), self.server.processor_seconds() - busy_seconds

    def _await_quiet(self) -> None:
        assert eventually(self._is_quiet, QUIET_SECONDS, pause_seconds=0.2), "L2 is still being written"

    def _is_quiet(self) -> bool:
        page = Page(self.server.metrics())
        submitted, completed = (
            page.total(f"lmcache_mp_l2_store_{what}_objects_chunks_total")
            for what in ("submitted", "completed")
        )
        return submitted == completed == page.total("lmcache_mp_l1_write_chunks_total")


def against(environment: LMCacheEnvironment, folder: Path, *, pairs: int = PAIRS) -> list[Ratio]:
    """Ask a server with the probe and two without for the same, in turn, and new ones after some pairs.

    The last rows have no probe in them: they compare the two without one, and the first of them to itself a
    pair earlier. So they say how much of the others is noise, and how much is that two processes differ.
    """
    lives = [
        _life(environment, folder / str(first), first, min(PAIRS_A_LIFE, pairs - first))
        for first in range(0, pairs, PAIRS_A_LIFE)
    ]
    on, off, other = (np.concatenate([took[kind] for took in lives]) for kind in KINDS)
    return [
        *ratios(FIGURES, "with / without", on, off),
        *ratios(FIGURES, "without / without, another process", other, off),
        *ratios(FIGURES, "without / without a pair earlier", off[1:], off[:-1]),
    ]


def _life(environment: LMCacheEnvironment, folder: Path, first: int, pairs: int) -> dict[str, np.ndarray]:
    """The bursts of servers that were started for them."""
    with ExitStack() as stack:
        asked = {}
        for kind in KINDS:
            (folder / kind).mkdir(parents=True)
            server = LMCacheServer(
                environment,
                folder / kind,
                l1_chunks=BURSTS_IN_L1 * PROMPTS_A_BURST * CHUNKS,
                watermark_ratio=0.5,
                probe=kind == "with",
            )
            asked[kind] = Asked(server, stack.enter_context(stack.enter_context(server).client()))
        for each in asked.values():
            each.burst(-1)
        return in_turn(KINDS, lambda kind, pair: asked[kind].burst(pair), pairs, first=first)


def _prompts(seed: object, count: int) -> list[list[int]]:
    rng = random.Random(str(seed))
    return [[rng.randrange(1000, 30000) for _ in range(CHUNKS * CHUNK_TOKENS)] for _ in range(count)]


def main(arguments: Sequence[str]) -> None:
    """Measure and print, with the load of the machine."""
    environment = lmcache_environment()
    with tempfile.TemporaryDirectory() as folder:
        if "pairs" in arguments:
            print("\n".join(table(against(environment, Path(folder)))))
            print("load average", *os.getloadavg())
            return
        figures = {"share": share(environment, Path(folder)), "flood": flood(environment)}
    print(json.dumps({**figures, "load_average": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
