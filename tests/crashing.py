"""Ways a store's owner can end in the middle of its work, each at a seeded point."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.ledgers import START, Ledger
from tierscope.domain.batch import FeedBatch
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.requests import RequestRecord
from tierscope.domain.window import TimeSpan
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
BATCHES = 60
LIFE_SECONDS = 86_400.0
"""How much later than in its life before an exporter tells in the next what is of then."""

KINDS = (
    "kill",
    "kill in checkpoint",
    "disk full",
    "log cut",
    "log zeroed",
    "log flipped",
    "file damaged",
    "exporter killed",
)
"""How an owner ends: killed, without room, its log or file not as it was written, or its exporter with it."""


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])
"""Owners are forked from a process that has imported everything and opened nothing."""


@dataclass(frozen=True, slots=True)
class Crash:
    """One owner that ended: what it had acknowledged, and what of it may be gone."""

    kind: str
    acknowledged: int
    """The last sequence it acknowledged; -1 before the first."""


def write_and_crash(path: Path, kind: str, seed: int) -> Crash:
    """Let another process own the store and end it as `kind` says, at a point that the seed chooses."""
    rng = random.Random(seed)
    acknowledged = _write(path, kind, seed, rng)
    log = path.with_name(f"{path.name}.wal")
    if kind == "file damaged":
        _change(path, rng)
    elif kind.startswith("log") and log.exists() and log.stat().st_size > 100:
        _harm(log, kind, rng)
    return Crash(kind, acknowledged)


def _write(path: Path, kind: str, seed: int, rng: random.Random) -> int:
    """Run the owner and kill it after some acknowledgements and a little time; return the last one."""
    heard, said = FORKS.Pipe(duplex=False)
    owner = FORKS.Process(target=_own, args=(path, kind, seed, said))
    owner.start()
    said.close()
    wanted, last = rng.randrange(1, BATCHES), -1
    try:
        for _ in range(wanted):
            last = heard.recv()
        owner.join(rng.random() * 0.02)
        owner.kill()
        while True:
            last = heard.recv()
    except EOFError:
        owner.join()
    return last


def _change(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(3):
        content[rng.randrange(4096, len(content))] ^= 0xFF
    path.write_bytes(content)


def _harm(log: Path, kind: str, rng: random.Random) -> None:
    content = log.read_bytes()
    at = rng.randrange(len(content))
    if kind == "log cut":
        os.truncate(log, at)
    elif kind == "log zeroed":
        log.write_bytes(content[:at] + bytes(len(content) - at))
    else:
        log.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])


def batches(seed: int) -> list[FeedBatch]:
    """What the exporter publishes."""
    return Ledger(seed).batches(BATCHES)


def held(kind: str, seed: int, first: int) -> list[FeedBatch]:
    """What the exporter tells after the crash: what it holds from `first` on; all anew if it died, too."""
    if kind != "exporter killed":
        return batches(seed)[first:]
    again = Ledger(seed, incarnation=8).batches(BATCHES)
    return [replace(one, at_unix_seconds=one.at_unix_seconds + LIFE_SECONDS) for one in again]


def admissions(told: Iterable[FeedBatch]) -> int:
    """How many there are, each counted once."""
    entries = (entry for one in told for entry in one.entries)
    return len({entry.request_id for entry in entries if isinstance(entry, RequestRecord)})


def missing(found: Mapping[str, Any]) -> int:
    """Batches that the contents say are missing."""
    return sum(c.missing for c in found["coverage"] if c.source.kind == "feed")


def contents(store: Store) -> dict[str, Any]:
    """Everything in the store but how chains are cut into deltas, which restarts may change."""
    found: dict[str, Any] = {"coverage": store.reader().coverage(ALL_TIME)}
    with store._database.reading() as cursor:
        for table, columns in {
            "requests": "* EXCLUDE (parent_id, common_blocks, new_hashes)",
            "block_accesses": "*",
            "block_events": "*",
            "tier_samples": "*",
            "tier_activity": "*",
            "engine_tokens": "*",
            "feed_positions": "*",
        }.items():
            found[table] = cursor.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
    return found


def let_files_grow_to(room_bytes: int) -> None:
    """Let this process find a full disk where a file of its own would be larger."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, hard))


def _own(path: Path, kind: str, seed: int, acknowledge: Connection) -> None:
    """Append in parts of random size and acknowledge each, checkpointing now and then; never close."""
    rng = random.Random(seed)
    store = Store.open(path, clock=lambda: START)
    if kind == "disk full":
        let_files_grow_to(store.size_bytes() + rng.randrange(200_000))
    try:
        todo = batches(seed)
        while todo:
            size = rng.randrange(1, 4)
            part, todo = todo[:size], todo[size:]
            store.append(part)
            acknowledge.send(part[-1].position.sequence)
            if kind == "kill in checkpoint" or rng.random() < 0.1:
                store.checkpoint()
    except StoreUnusable:  # no room
        pass
    finally:
        os._exit(1)
