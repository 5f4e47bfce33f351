"""A store's owner ends at two hundred seeded points: nothing acknowledged is lost, and what is lost is told.

python -m pytest -m long tests/long/test_store_crashes.py -s      # prints the table of docs/measurements.md
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crashing import KINDS, Crash, admissions, batches, contents, held, missing, write_and_crash
from tests.ledgers import START
from tests.long_sample import SAMPLED
from tierscope.domain.batch import FeedBatch
from tierscope.storage.failures import StoreDamaged
from tierscope.storage.store import Store

POINTS = len(KINDS) * 2 if SAMPLED else 200
HARMED = ("log cut", "log zeroed", "log flipped", "file damaged")
"""Kinds that take from the disk what was written there."""


def opened(path: Path) -> Store:
    return Store.open(path, clock=lambda: START)


def orderly(folder: Path, seed: int, stored: int, told: Sequence[FeedBatch]) -> dict[str, Any]:
    """What a store has that nothing happened to and that was told the same."""
    with opened(folder / "orderly") as store:
        store.append(batches(seed)[: stored + 1])
        store.append(told)
        return contents(store)


def check(path: Path, crash: Crash, seed: int) -> str:
    """Open the store, tell it what its exporter still holds, and compare; what became of it in one word."""
    rng = random.Random(seed)
    with opened(path) as store:
        position = store.position("node-1")
        stored = -1 if position is None else position.sequence
        if crash.kind not in HARMED:
            assert stored >= crash.acknowledged, "what was acknowledged is lost"
        # Two of three exporters hold everything, the third has lost some of what comes next.
        first = max(0, stored + 1 + rng.choice([-5, 0, 3]))
        told = held(crash.kind, seed, first)
        try:
            store.append(told)
        except StoreDamaged:  # the append that meets the damage begins a new file; a collector tries again
            assert crash.kind == "file damaged"
            stored = -1
            store.append(told)
        try:
            found = contents(store)
        except StoreDamaged:
            assert crash.kind == "file damaged"
            return "told to readers"
    assert found == orderly(path.parent, seed, stored, told)
    assert len(found["requests"]) == admissions([*batches(seed)[: stored + 1], *told])
    gap = told[0].position.sequence - stored - 1 if told else 0  # a gap shows by what comes after it
    lost = gap if gap > 0 and crash.kind != "exporter killed" else 0
    assert missing(found) == lost
    set_aside = any("damaged" in file.name for file in path.parent.iterdir())
    return "set aside" if set_aside and stored < 0 else "gap told" if lost else "complete"


@pytest.mark.long
def test_no_crash_loses_what_was_acknowledged(tmp_path, capsys):
    """After each crash the store opens and, told the rest, is as one that nothing happened to."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for seed in range(POINTS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kind = KINDS[seed % len(KINDS)]
        crash = write_and_crash(folder / "store.duckdb", kind, seed)
        outcomes[kind, check(folder / "store.duckdb", crash, seed)] += 1

    words = sorted({word for _, word in outcomes})
    with capsys.disabled():
        print("\n| crash | " + " | ".join(words) + " |\n|" + "---|" * (1 + len(words)))
        for kind in KINDS:
            print(f"| {kind} | " + " | ".join(str(outcomes[kind, word]) for word in words) + " |")
    assert outcomes.total() == POINTS
    assert {word for kind, word in outcomes if kind not in HARMED} <= {"complete", "gap told"}
