"""Chaos in namespaces of its own: `unshare … python -m tests.load.chaos SEED FAULTS FOLDER`.

Faults of every kind in an order that the seed tells, each for a few seconds and each of someone who is alive;
after each, the store must come to have everything that was sent by then, without anybody's help. Prints a
line a fault on stderr, and what it all came to as one JSON document on stdout.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.load.chaos_stage import DISK_BYTES, Stage
from tests.load.namespaces import dropped, enter, filled, name
from tests.processes import tree

LONGEST_SECONDS = 4.0
PATIENCE_SECONDS = 240.0

Fault = Callable[[Stage, random.Random, float], int]
"""Does it, for so many seconds; how many processes, addresses, names or files it befell."""


def drawn(stage: Stage, rng: random.Random, which: str) -> tuple[str, int]:
    """Someone of a kind who is alive, and its process id; waits until there is one."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := stage.living(which)):
        assert time.monotonic() < deadline, f"no {which} has come up within {PATIENCE_SECONDS:.0f} s"
        time.sleep(0.1)
    return rng.choice(sorted(found.items()))


def signalled(pids: Iterable[int], number: signal.Signals) -> list[int]:
    """Send it to each; who was there to get it."""
    reached = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached.append(pid)
    return reached


def killed(which: str) -> Fault:
    """SIGKILL; whoever keeps it starts it again."""

    def fault(stage: Stage, rng: random.Random, seconds: float) -> int:
        # Who ends between being drawn and being killed is not what was to happen: another is drawn.
        while not (reached := signalled([drawn(stage, rng, which)[1]], signal.SIGKILL)):
            pass
        time.sleep(seconds)
        return len(reached)

    return fault


def paused(which: str) -> Fault:
    """SIGSTOP, and SIGCONT some seconds later."""

    def fault(stage: Stage, rng: random.Random, seconds: float) -> int:
        pid = drawn(stage, rng, which)[1]
        stopped = signalled(tree(pid) if which == "postgres" else [pid], signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            signalled(stopped, signal.SIGCONT)
        return len(stopped)

    return fault


def partitioned(which: str) -> Fault:
    """No packet passes: between an exporter and its engines, on the feeds, or to PostgreSQL."""

    def fault(stage: Stage, rng: random.Random, seconds: float) -> int:
        ports = {
            "engines": lambda: stage.engine_ports[drawn(stage, rng, "exporter")[0]],
            "feeds": lambda: stage.feed_ports,
            "postgres": lambda: [stage.postgres.port],
        }[which]()
        with dropped(ports):
            time.sleep(seconds)
        return len(ports)

    return fault


def disk_full(stage: Stage, _rng: random.Random, seconds: float) -> int:
    """Not a page of room where the lake's files are."""
    with filled(stage.disk, DISK_BYTES) as is_full:
        time.sleep(seconds)
    return int(is_full)


def names_lost(stage: Stage, rng: random.Random, seconds: float) -> int:
    """The engines' names are nobody's, while an exporter has to look them up anew."""
    name([])
    try:
        return killed("exporter")(stage, rng, seconds)
    finally:
        name(stage.names)


def postgres_restarted(*, crash: bool) -> Fault:
    """PostgreSQL goes and comes back."""

    def fault(stage: Stage, rng: random.Random, _seconds: float) -> int:
        before = drawn(stage, rng, "postgres")[1]
        stage.postgres.restart(crash=crash)
        return int(drawn(stage, rng, "postgres")[1] != before)

    return fault


def kubernetes_restarted(stage: Stage, rng: random.Random, seconds: float) -> int:
    """The Kubernetes API goes and comes back, and an exporter has to find its engines anew."""
    stage.kube.stop()
    try:
        return killed("exporter")(stage, rng, seconds)
    finally:
        stage.kube.start()


def engine_restarted(stage: Stage, rng: random.Random, seconds: float) -> int:
    """An engine loses everything: its sequences and counters begin at 0."""
    stage.restart_engine(rng.randrange(stage.testbed.config.replicas))
    time.sleep(seconds)
    return 1


def engine_unread(stage: Stage, rng: random.Random, seconds: float) -> int:
    """An exporter is killed, and before it is back one of its engines: nobody has read its last records."""
    with stage.unattended():
        who, pid = drawn(stage, rng, "exporter")
        reached = signalled([pid], signal.SIGKILL)
        time.sleep(seconds)
        stage.restart_engine(rng.choice(stage.engines_of(who)))
    return len(reached)


def engine_unstored(stage: Stage, rng: random.Random, seconds: float) -> int:
    """Collectors, an engine, its exporter are killed in turn: what that one had read is nowhere else."""
    with stage.unattended():
        collectors = stage.living("collector").values()
        signalled([*stage.living("server").values(), *collectors], signal.SIGKILL)
        time.sleep(seconds)
        who, pid = drawn(stage, rng, "exporter")
        stage.restart_engine(rng.choice(stage.engines_of(who)))
        return len(signalled([pid], signal.SIGKILL))


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
    "PostgreSQL restarted": postgres_restarted(crash=False),
    "PostgreSQL crashed": postgres_restarted(crash=True),
    "engine restarted": engine_restarted,
    "engine and exporter killed, unread": engine_unread,
    "engine and exporter killed, unstored": engine_unstored,
    "Kubernetes API restarted": kubernetes_restarted,
}
LOSING = ("engine and exporter killed, unread", "engine and exporter killed, unstored")
"""Faults that may take with them what only a killed engine and its exporter had."""


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
        gone = stage.handed_over
        document = {
            "seed": seed,
            "faults": told,
            "seconds": time.monotonic() - began,
            "settled_seconds": settled,
            "sent": asdict(sent),
            "stored": None if stored is None else asdict(stored),
            "lost": asdict(gone.splits(gone.lost)),
            "unexplained": [(request, asdict(place)) for request, place in gone.unexplained(stage.heard())],
            "sources": stage.sources(),
            "restarts": {who: one.restarts for who, one in stage.processes.items()},
        }
    json.dump(document, sys.stdout)


def _befall(stage: Stage, rng: random.Random, kind: str, number: int) -> dict[str, object]:
    """One fault; how long until the store had everything again (None: it never had), and what is missing.

    Traffic goes on, and so its tokens would soon hide that some were lost: requests are asked for one by one.
    """
    gone = stage.handed_over
    before = set(gone.lost)
    seconds = rng.uniform(0.5, LONGEST_SECONDS)
    befell = FAULTS[kind](stage, rng, seconds)
    recovered = stage.wait_until_caught_up(PATIENCE_SECONDS)
    missing = {} if recovered is None else stage.missing()
    lost = gone.splits(gone.lost.keys() - before).prompt
    load = os.getloadavg()[0]
    sys.stderr.write(
        f"fault {number + 1}, {kind}, {seconds:.1f} s, {befell}: {recovered} s, missing {missing}, "
        f"lost {lost}, load {load:.0f}\n"
    )
    return {
        "kind": kind, "seconds": seconds, "befell": befell, "recovered_seconds": recovered,
        "missing": missing, "lost": lost, "load": load,
    }  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
