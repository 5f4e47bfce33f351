"""A pool of a million files: what a scan costs, and what it finds."""

from __future__ import annotations

import os
import random

import pytest

from tests.long_sample import SAMPLED
from tests.pools import scanning, server_name

pytestmark = pytest.mark.long

FILES = 50_000 if SAMPLED else 1_000_000
MOST_BYTES = 200 * 1000 * 1000
REMOVED, ADDED = 1000, 500


def create(folder, names):
    for name in names:
        os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY))
        os.truncate(folder / name, 1)


def test_a_million_files_are_scanned_in_bounded_memory(tmp_path, repository, capsys):
    """First whole, then by what changed; each chunk that went is told, and 200 MB are enough."""
    rng = random.Random(11)
    names = [server_name(rng.getrandbits(64), model="meta-llama/Llama-3.1-8B-Instruct") for _ in range(FILES)]
    create(tmp_path, names)

    with scanning(
        repository, pool="pool", path=str(tmp_path), must_be_mounted=False, scan_seconds=5.0
    ) as reports:
        first = next(reports)
        second = next(reports)
        for name in names[:REMOVED]:
            (tmp_path / name).unlink()
        create(tmp_path, [server_name(rng.getrandbits(64)) for _ in range(ADDED)])
        changed = [next(reports), next(reports)]

    with capsys.disabled():
        spent = 0.0
        for what, report in (("first", first), ("unchanged", second), *(("changed", one) for one in changed)):
            processor, spent = report["cpu_seconds"] - spent, report["cpu_seconds"]
            memory = report["peak_bytes"] / 1e6
            print(
                f"\n{what}: {report['seconds']:.2f} s, {processor:.2f} s of a core, at most {memory:.0f} MB"
            )
        print()
    assert first["files"] == second["files"] == FILES
    assert (second["stored"], second["removed"]) == (0, 0)
    assert sum(report["removed"] for report in changed) == REMOVED
    assert sum(report["stored"] for report in changed) == ADDED
    assert changed[-1]["files"] == FILES - REMOVED + ADDED
    assert changed[-1]["peak_bytes"] < MOST_BYTES
