"""What the probe costs a real LMCache server: its time against lookups and retrieves, and a flood of events.

python -m tests.engines.lmcache_overhead          prints the figures of docs/measurements.md as JSON
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

from tests.engines.hook import addresses
from tests.engines.lmcache_environment import LMCacheEnvironment, lmcache_environment
from tests.engines.lmcache_records import read_settled
from tests.engines.lmcache_server import CHUNK_TOKENS, ENVIRONMENT, LMCacheServer

LOAD = Path(__file__).parent / "lmcache_bus_load.py"
LOOKUPS_PER_SECOND = 1_000
FLOOD_SECONDS = 30
CHUNKS = 16
PROMPTS = 40
ROUNDS = 5


def share(environment: LMCacheEnvironment, folder: Path) -> dict[str, float]:
    """Time in the bus's thread that was ours, against the time of lookups and retrieves."""
    rng = random.Random(1)
    prompts = [[rng.randrange(1000, 30000) for _ in range(CHUNKS * CHUNK_TOKENS)] for _ in range(PROMPTS)]
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


def main() -> None:
    """Measure and print, with the load of the machine."""
    environment = lmcache_environment()
    with tempfile.TemporaryDirectory() as folder:
        figures = {"share": share(environment, Path(folder)), "flood": flood(environment)}
    print(json.dumps({**figures, "load_average": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main()
