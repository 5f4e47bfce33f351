"""Owners of a lake end at seeded points, and their sessions: what was acknowledged is there, once.

python -m pytest -m long tests/long/test_lake_crashes.py -s      # prints how often each kind ended how
"""

from __future__ import annotations

import os
import random
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.crashing import BATCHES, FORKS, batches, contents
from tests.lakes import Lake, Postgres
from tests.ledgers import START
from tests.long_sample import SAMPLED
from tierscope.domain.errors import StoreUnusable
from tierscope.storage.store import Store

POINTS = 8 if SAMPLED else 200
KINDS = ("kill", "kill in maintenance", "sessions ended", "kill beside another collector")


def opened(lake: Lake) -> Store:
    return Store.open(*lake, clock=lambda: START)


def own(lake: Lake, kind: str, seed: int, acknowledge: Connection) -> None:
    """Append in parts of random size and acknowledge each; go on after a connection that was lost."""
    rng = random.Random(seed)
    store = opened(lake)
    todo = batches(seed)
    while todo:
        part = todo[: rng.randrange(1, 4)]
        try:
            store.append(part)
            if kind == "kill in maintenance" and rng.random() < 0.3:
                store.maintained(keep_snapshots_seconds=0)
        except StoreUnusable:
            continue  # what is stored of it is dropped when it comes again
        todo = todo[len(part) :]
        acknowledge.send(part[-1].position.sequence)
    os._exit(0)


def write_and_crash(lake: Lake, server: Postgres, kind: str, seed: int) -> int:
    """Let another process write, harm it at a seeded point, end it; the last sequence it acknowledged."""
    rng = random.Random(seed)
    heard, said = FORKS.Pipe(duplex=False)
    owner = FORKS.Process(target=own, args=(lake, kind, seed, said))
    owner.start()
    said.close()
    last = -1
    try:
        for _ in range(rng.randrange(1, BATCHES // 3)):
            last = heard.recv()
            if kind == "sessions ended" and rng.random() < 0.4:
                server.ask(
                    "postgres",
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'tierscope/%'",
                )
        if kind == "kill beside another collector":
            with opened(lake) as other:
                other.append(batches(seed)[: rng.randrange(BATCHES)])
        owner.join(rng.random() * 0.2)
        owner.kill()
        while True:
            last = heard.recv()
    except EOFError:
        owner.join()
    return last


def orderly(folder: Path, seed: int, stored: int, first: int) -> dict[str, object]:
    """What a file has that nothing happened to and that was told the same."""
    with Store.open(folder / f"orderly-{seed}.duckdb", clock=lambda: START) as store:
        store.append(batches(seed)[: stored + 1])
        store.append(batches(seed)[first:])
        return contents(store)


@pytest.mark.long
def test_no_crash_of_a_lakes_owner_loses_what_was_acknowledged(postgres, tmp_path, capsys):
    """After each crash the lake, told the rest, has what a file has that nothing happened to."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for seed in range(POINTS):
        kind = KINDS[seed % len(KINDS)]
        lake = postgres.lake(tmp_path / str(seed))
        acknowledged = write_and_crash(lake, postgres, kind, seed)
        assert acknowledged >= 0, f"seed {seed}: nothing was acknowledged that could be lost"
        with opened(lake) as store:
            position = store.position("node-1")
            stored = -1 if position is None else position.sequence
            assert stored >= acknowledged, f"seed {seed}: what was acknowledged is lost"
            first = max(0, stored + 1 + random.Random(seed).choice([-5, 0, 3]))
            store.append(batches(seed)[first:])
            found = contents(store)
        assert found == orderly(tmp_path, seed, stored, first), f"seed {seed}, {kind}"
        missing = first - stored - 1 if stored + 1 < first < BATCHES else 0
        assert sum(c.missing for c in found["coverage"] if c.source.kind == "feed") == missing
        outcomes[kind, "gap told" if missing else "complete"] += 1
    with capsys.disabled():
        print("\n| crash | complete | gap told |\n|---|---|---|")
        for kind in KINDS:
            print(f"| {kind} | {outcomes[kind, 'complete']} | {outcomes[kind, 'gap told']} |")
    assert outcomes.total() == POINTS
