"""Owners of a lake end at seeded points, and their sessions: what was acknowledged is there, once.

python -m pytest -m long tests/long/test_lake_crashes.py -s      # prints how often each kind ended how
TIERSCOPE_CRASHES=100,50 python -m pytest …                      # the first seed, and how many

A stopped owner keeps others waiting for minutes, so parts of the 200 are best run beside each other.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.crashing import (
    BATCHES,
    FORKS,
    admissions,
    batches,
    contents,
    held,
    let_files_grow_to,
    missing,
)
from tests.lakes import Lake, Postgres
from tests.ledgers import START
from tests.long_sample import SAMPLED
from tierscope.domain.batch import FeedBatch
from tierscope.domain.errors import StoreUnusable
from tierscope.storage.store import Store

KINDS = (
    "kill",
    "kill in maintenance",
    "sessions ended",
    "kill beside another collector",
    "stopped and woken",
    "disk full",
    "PostgreSQL crashed",
    "exporter killed",
)
FIRST, POINTS = map(int, os.environ.get("TIERSCOPE_CRASHES", "0,4" if SAMPLED else "0,200").split(","))
END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tierscope/%'"
)

END_COMMITTING = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks "
    "WHERE relation = 'ducklake_snapshot'::regclass AND mode = 'RowExclusiveLock'"
)
"""As a lease that has ended does: whoever was stopped inside a commit would hold everybody else."""


def opened(lake: Lake) -> Store:
    return Store.open(*lake, clock=lambda: START)


def own(lake: Lake, kind: str, seed: int, acknowledge: Connection) -> None:
    """Append in parts of random size and acknowledge each; go on after a connection that was lost."""
    rng = random.Random(seed)
    store = opened(lake)
    if kind == "disk full":
        let_files_grow_to(rng.randrange(2_000, 12_000))
    todo = batches(seed)
    while todo:
        part = todo[: rng.randrange(1, 4)]
        try:
            store.append(part)
            if kind in {"kill in maintenance", "disk full"} and rng.random() < 0.3:
                store.maintained(keep_snapshots_seconds=0)
        except StoreUnusable:
            if kind == "disk full":
                break
            continue  # what is stored of it is dropped when it comes again
        todo = todo[len(part) :]
        acknowledge.send(part[-1].position.sequence)
    os._exit(0)


def overtake(lake: Lake, server: Postgres, seed: int, rng: random.Random) -> None:
    """What another collector does meanwhile: append the same, join files, forget earlier states."""
    with opened(lake) as other:
        server.ask(lake.name.partition("dbname=")[2].split()[0], END_COMMITTING)
        for _ in range(3):
            other.append(batches(seed)[: rng.randrange(BATCHES)])
            other.maintained(keep_snapshots_seconds=0)


def write_and_crash(lake: Lake, server: Postgres, kind: str, seed: int) -> int:
    """Let another process write, harm it at a seeded point, end it; the last sequence it acknowledged."""
    rng = random.Random(seed)
    heard, said = FORKS.Pipe(duplex=False)
    owner = FORKS.Process(target=own, args=(lake, kind, seed, said))
    owner.start()
    said.close()
    last = -1
    with suppress(EOFError):
        for _ in range(rng.randrange(1, BATCHES // 3)):
            last = heard.recv()
            if kind == "sessions ended" and rng.random() < 0.4:
                server.ask("postgres", END_SESSIONS)
        owner.join(rng.random() * 0.2)
        if kind == "kill beside another collector":
            with opened(lake) as other:
                other.append(batches(seed)[: rng.randrange(BATCHES)])
        elif kind == "stopped and woken":
            with stopped(owner.pid):
                overtake(lake, server, seed, rng)
            owner.join(rng.random())
        elif kind == "PostgreSQL crashed":
            server.restart(crash=True)
            owner.join(rng.random())
        owner.kill()
        while True:
            last = heard.recv()
    owner.join()
    return last


@contextmanager
def stopped(pid: int | None) -> Iterator[None]:
    """Hold a process still for the body's time."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def orderly(folder: Path, seed: int, stored: int, told: Sequence[FeedBatch]) -> dict[str, Any]:
    """What a file has that nothing happened to and that was told the same."""
    with Store.open(folder / f"orderly-{seed}.duckdb", clock=lambda: START) as store:
        store.append(batches(seed)[: stored + 1])
        store.append(told)
        return contents(store)


def check(lake: Lake, folder: Path, kind: str, acknowledged: int, seed: int) -> str:
    """Tell the lake what its exporter still holds, and compare; what became of it in one word."""
    with opened(lake) as store:
        position = store.position("node-1")
        stored = -1 if position is None else position.sequence
        assert stored >= acknowledged, "what was acknowledged is lost"
        first = max(0, stored + 1 + random.Random(seed).choice([-5, 0, 3]))
        told = held(kind, seed, first)
        store.append(told)
        found = contents(store)
    assert found == orderly(folder, seed, stored, told)
    assert len(found["requests"]) == admissions([*batches(seed)[: stored + 1], *told])
    gap = told[0].position.sequence - stored - 1 if told else 0
    lost = gap if gap > 0 and kind != "exporter killed" else 0
    assert missing(found) == lost
    return "gap told" if lost else "complete"


@pytest.mark.long
def test_no_crash_of_a_lakes_owner_loses_what_was_acknowledged(crashing_postgres, tmp_path, capsys):
    """After each crash the lake, told the rest, has what a file has that nothing happened to."""
    outcomes: Counter[tuple[str, str]] = Counter()
    acknowledged = Counter[str]()
    for seed in range(FIRST, FIRST + POINTS):
        kind = KINDS[seed % len(KINDS)]
        rows = 0 if kind == "disk full" else 1000  # a commit that writes no file needs no room
        lake = crashing_postgres.lake(tmp_path / str(seed), inline_rows=rows)
        last = write_and_crash(lake, crashing_postgres, kind, seed)
        acknowledged[kind] += last + 1
        with capsys.disabled():
            print(f"seed {seed}, {kind}: {last} acknowledged")
        outcomes[kind, check(lake, tmp_path, kind, last, seed)] += 1
    with capsys.disabled():
        print("\n| crash | batches acknowledged | complete | gap told |\n|---|---|---|---|")
        for kind in acknowledged:
            ends = f"{outcomes[kind, 'complete']} | {outcomes[kind, 'gap told']}"
            print(f"| {kind} | {acknowledged[kind]} | {ends} |")
    assert outcomes.total() == POINTS
    assert all(acknowledged.values()), "nothing was acknowledged that could be lost"
