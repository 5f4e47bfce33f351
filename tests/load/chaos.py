"""Chaos in namespaces of its own: `unshare … python -m tests.load.chaos SEED FAULTS FOLDER`.

Faults of every kind in an order that the seed tells, each for a few seconds; after each, the store must come
to have everything that was sent by then, without anybody's help. Prints a line a fault on stderr, and what it
all came to as one JSON document on stdout.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from tests import lakes
from tests.load.chaos_stage import Stage
from tests.load.measuring import tree
from tests.load.namespaces import dropped, enter, name

LONGEST_SECONDS = 4.0
PATIENCE_SECONDS = 240.0

Fault = Callable[[Stage, random.Random, float], None]


def killed(which: str) -> Fault:
    """SIGKILL; whoever keeps it starts it again."""

    def fault(stage: Stage, rng: random.Random, seconds: float) -> None:
        pid = _pid(stage, rng, which)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(seconds)

    return fault


def paused(which: str) -> Fault:
    """SIGSTOP, and SIGCONT some seconds later."""

    def fault(stage: Stage, rng: random.Random, seconds: float) -> None:
        pid = _pid(stage, rng, which)
        with _stopped(tree(pid) if which == "postgres" and pid is not None else [pid]):
            time.sleep(seconds)

    return fault


@contextmanager
def _stopped(pids: list[int | None]) -> Iterator[None]:
    found = [pid for pid in pids if pid is not None]
    try:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _pid(stage: Stage, rng: random.Random, which: str) -> int | None:
    if which == "postgres":
        return int((stage.postgres.folder / "data" / "postmaster.pid").read_text().split()[0])
    if which == "collector":
        return stage.collector_pid(rng.choice([who for who in stage.processes if who.startswith("server")]))
    return stage.processes[rng.choice([who for who in stage.processes if who.startswith(which)])].pid


def partitioned(which: str) -> Fault:
    """No packet passes: between an exporter and its engines, on the feeds, or to PostgreSQL."""

    def fault(stage: Stage, rng: random.Random, seconds: float) -> None:
        ports = {
            "engines": stage.engine_ports[rng.choice(sorted(stage.engine_ports))],
            "feeds": stage.feed_ports,
            "postgres": [stage.postgres.port],
        }[which]
        with dropped(ports):
            time.sleep(seconds)

    return fault


def disk_full(stage: Stage, _rng: random.Random, seconds: float) -> None:
    """Not a byte of room where the lake's files are."""
    filler = stage.disk / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        time.sleep(seconds)
    finally:
        filler.unlink(missing_ok=True)


def names_lost(stage: Stage, rng: random.Random, seconds: float) -> None:
    """The engines' names are nobody's, while an exporter has to look them up anew."""
    name([])
    try:
        killed("exporter")(stage, rng, seconds)
    finally:
        name(stage.names)


def postgres_restarted(mode: str) -> Fault:
    """PostgreSQL goes and comes back."""

    def fault(stage: Stage, _rng: random.Random, _seconds: float) -> None:
        folder = stage.postgres.folder
        user = ["runuser", "-u", "postgres", "--"]
        command = [
            lakes.BINARIES[-1] / "pg_ctl",
            "-D",
            folder / "data",
            "-l",
            folder / "log",
            "-w",
            "-m",
            mode,
        ]
        subprocess.run([*user, *map(str, command), "restart"], check=True, capture_output=True, cwd=folder)

    return fault


def engine_restarted(stage: Stage, rng: random.Random, seconds: float) -> None:
    """An engine loses everything: its sequences and counters begin at 0."""
    stage.testbed.restart(rng.randrange(stage.testbed.config.replicas))
    time.sleep(seconds)


FAULTS: dict[str, Fault] = {
    "exporter killed": killed("exporter"),
    "collector killed": killed("collector"),
    "API killed": killed("server"),
    "exporter paused": paused("exporter"),
    "collector paused": paused("collector"),
    "API paused": paused("server"),
    "PostgreSQL paused": paused("postgres"),
    "engines out of reach": partitioned("engines"),
    "feeds out of reach": partitioned("feeds"),
    "PostgreSQL out of reach": partitioned("postgres"),
    "disk full": disk_full,
    "names lost": names_lost,
    "PostgreSQL restarted": postgres_restarted("fast"),
    "PostgreSQL crashed": postgres_restarted("immediate"),
    "engine restarted": engine_restarted,
}


def main(seed: int, faults: int, folder: Path) -> None:
    """Let chaos loose, then compare."""
    enter(folder)
    rng = random.Random(seed)
    order = [
        kind for _ in range(-(-faults // len(FAULTS))) for kind in rng.sample(sorted(FAULTS), len(FAULTS))
    ]
    with Stage(folder) as stage:
        assert stage.wait_until_caught_up(PATIENCE_SECONDS) is not None
        began = time.monotonic()
        told = [_befall(stage, rng, kind, number) for number, kind in enumerate(order[:faults])]
        settled = stage.settle(PATIENCE_SECONDS)
        sent, stored = stage.testbed.sent(), stage.stored()
        document = {
            "seed": seed,
            "faults": told,
            "seconds": time.monotonic() - began,
            "settled_seconds": settled,
            "sent": asdict(sent),
            "stored": None if stored is None else asdict(stored),
            "sources": list(stage.missing()),
            "restarts": {who: one.restarts for who, one in stage.processes.items()},
        }
    json.dump(document, sys.stdout)


def _befall(stage: Stage, rng: random.Random, kind: str, number: int) -> dict[str, object]:
    """One fault, and how long it took until the store had everything again; None: it did not."""
    seconds = rng.uniform(0.5, LONGEST_SECONDS)
    FAULTS[kind](stage, rng, seconds)
    recovered = stage.wait_until_caught_up(PATIENCE_SECONDS)
    load = os.getloadavg()[0]
    sys.stderr.write(f"fault {number + 1}, {kind}, {seconds:.1f} s: {recovered} s, load {load:.0f}\n")
    return {"kind": kind, "seconds": seconds, "recovered_seconds": recovered, "load": load}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
