"""Our policies next to libCacheSim's, whose authors S3-FIFO is by: access for access the same hits.

It knows objects, not paths, so requests are of one block each: there the two mean the same.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.engines import virtualenv
from tierscope.sim.policies import policy_named
from tierscope.traces.open import read_trace
from tierscope.traces.paths import Paths

HERE = Path(__file__).parent
PINS = HERE / "libcachesim-0.3.5.txt"
SIZES = [20, 25, 50, 100, 155, 300, 1000, 2000]
"""From 20 on: with a small queue of one object or none, theirs takes in nothing or ends."""
ACCESSES = 30_000


def popular_among_scans(rng: np.random.Generator) -> np.ndarray:
    """Some objects far more popular than others, and a loop over 900 that comes in between."""
    popular = rng.zipf(1.1, ACCESSES) % 3000
    return np.where(rng.random(ACCESSES) < 0.6, popular, 3000 + np.arange(ACCESSES) % 900)


def asked_of_libcachesim(ids: np.ndarray) -> dict[str, dict[str, list[int]]]:
    """The numbers of the accesses that hit, by policy and size."""
    given = os.environ.get("TIERSCOPE_LIBCACHESIM_ENVIRONMENT")
    folder = virtualenv.prepared("libcachesim", PINS, given=given, probe=False)
    done = subprocess.run(
        [str(folder / "bin" / "python"), str(HERE / "libcachesim_answers.py")],
        input=json.dumps({"sizes": SIZES, "ids": ids.tolist()}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def accesses(kind: str, fixtures: Path) -> np.ndarray:
    if kind == "conversations":
        return read_trace(fixtures / "traces" / "conversations.jsonl").block_ids
    return popular_among_scans(np.random.default_rng(0))


@pytest.mark.engines
@pytest.mark.parametrize("kind", ["popular among scans", "conversations"])
def test_every_access_hits_where_it_hits_in_libcachesim(kind, fixtures):
    """0 hits different, by LRU, FIFO and S3-FIFO, at every size."""
    _, ids = np.unique(accesses(kind, fixtures), return_inverse=True)
    paths = Paths(np.arange(len(ids) + 1, dtype=np.int64), ids.astype(np.int32), int(ids.max()) + 1)

    theirs = asked_of_libcachesim(ids)

    for policy, by_size in theirs.items():
        ours = {
            size: np.flatnonzero(policy_named(policy).leading_hits(paths, int(size))).tolist()
            for size in by_size
        }
        assert ours == by_size, policy
    assert set(theirs) == {"lru", "fifo", "s3fifo"}
    assert all(len(hits) > 0 for by_size in theirs.values() for hits in by_size.values())
