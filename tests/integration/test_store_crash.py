"""A process that is killed while it writes leaves what it acknowledged, and can be fed the rest."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crashing import ALL_TIME, contents
from tests.ledgers import START, Ledger
from tierscope.storage.store import Store

BATCHES = 150

WRITER = """
import sys
from tests.crashing import ALL_TIME, contents
from tests.ledgers import START, Ledger
from tierscope.storage.store import Store

path, seed, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = Store.open(path, clock=lambda: START)
position = store.position("node-1")
first = position.sequence + 1 if position else 0
for batch in Ledger(seed).batches(batches)[max(0, first - 3):]:
    store.append(batch)
    print(batch.position.sequence, flush=True)
"""


def write_until_killed(path: Path, seed: int, acknowledgements: int, repository: Path) -> int | None:
    """Write in another process, kill it after some acknowledgements; the last one it gave."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(seed), str(BATCHES)],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
    )
    last = None
    with writer:
        for count, line in enumerate(writer.stdout, start=1):
            last = int(line)
            if count >= acknowledgements:
                writer.send_signal(signal.SIGKILL)
    return last


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_writers_leave_what_they_acknowledged(tmp_path, repository, seed):
    """After kills at random moments and feeding the rest, every table is as after an orderly run."""
    rng = random.Random(seed)
    with Store.open(tmp_path / "orderly", clock=lambda: START) as orderly:
        orderly.append(Ledger(seed).batches(BATCHES))
        expected = contents(orderly)

    path = tmp_path / "killed"
    for _ in range(3):
        acknowledged = write_until_killed(path, seed, rng.randrange(1, 40), repository)
        with Store.open(path, clock=lambda: START) as store:
            position = store.position("node-1")
            assert acknowledged is not None
            assert position.sequence >= acknowledged
            written = store.reader().window("prod", "chat", ALL_TIME)
            assert written.totals() == store.reader().totals("prod", "chat", ALL_TIME).tokens
    with Store.open(path, clock=lambda: START) as store:
        store.append(Ledger(seed).batches(BATCHES))

        assert contents(store) == expected


def test_a_torn_log_is_an_earlier_moment(tmp_path, repository):
    """Wherever the database's log breaks off, the store is as after some append: rows and position agree."""
    rng = random.Random(3)
    path = tmp_path / "killed"
    write_until_killed(path, 1, 40, repository)
    log = path.with_name("killed.wal").read_bytes()
    found = set()
    for n in range(8):
        torn = tmp_path / f"torn-{n}"
        shutil.copy(path, torn)
        torn.with_name(f"{torn.name}.wal").write_bytes(log[: rng.randrange(len(log) // 2, len(log))])

        with Store.open(torn, clock=lambda: START) as store:
            position = store.position("node-1")
            (feed,) = (c for c in store.reader().coverage(ALL_TIME) if c.source.kind == "feed")
            assert feed.received == position.sequence + 1
            window = store.reader().window("prod", "chat", ALL_TIME)
            assert window.totals() == store.reader().totals("prod", "chat", ALL_TIME).tokens
            found.add(position.sequence)

    assert len(found) > 1
