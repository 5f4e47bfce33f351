"""Three collectors share a lake: one is killed, one is stopped and wakes; nothing is lost or stored twice.

python -m pytest -m long tests/long/test_lake_collectors.py -s      # prints how long catching up took
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.collector_process import READY, started_collector
from tests.exporting import await_true
from tests.lakes import Lake
from tests.ledgers import START, Ledger
from tests.long_sample import SAMPLED
from tierscope.domain.batch import FeedBatch
from tierscope.domain.requests import NO_TOKENS, RequestRecord
from tierscope.domain.settings import CollectorSettings, FeedSource
from tierscope.domain.window import TimeSpan
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
EXPORTERS, BATCHES = (8, 80) if SAMPLED else (24, 240)
LEASE_SECONDS = 3.0
PATIENCE_SECONDS = 900.0


class Publishing:
    """Exporters that publish their ledgers batch by batch, round robin."""

    def __init__(self) -> None:
        self.feeds = [
            FeedPublisher(f"node-{n}", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", 1 << 26, lambda: START)
            for n in range(EXPORTERS)
        ]
        self.ledgers = [Ledger(n, exporter=feed.name).batches(BATCHES) for n, feed in enumerate(self.feeds)]
        self.published = 0

    def publish(self, until: int, *, pause_seconds: float = 0.0) -> None:
        for number in range(self.published, until):
            for feed, ledger in zip(self.feeds, self.ledgers, strict=True):
                feed.publish(ledger[number].entries)
            self.published = number + 1
            time.sleep(pause_seconds)

    def close(self) -> None:
        for feed in self.feeds:
            feed.close()


def start_collector(lake: Lake, feeds, folder, name) -> subprocess.Popen[str]:
    settings = CollectorSettings(
        store_path=lake.name,
        lake=lake.settings,
        socket_path=str(folder / f"{name}.sock"),
        feeds=tuple(
            FeedSource(name=f.name, endpoint=f.endpoint, replay_endpoint=f.replay_endpoint) for f in feeds
        ),
        flush_seconds=0.5,
        maintain_seconds=5.0,
        keep_raw_seconds=1e10,  # the ledgers are of long ago
        keep_hourly_seconds=2e10,
    )
    return started_collector(settings, folder, name)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


SUMMED = ("requests", "block_events", "tier_samples", "tier_activity", "tier_transfers", "engine_tokens")


def sums(reader: DuckDbReader) -> tuple[object, ...]:
    """Rows that would be too many or too few if a batch were stored twice or not at all, and the counters."""
    counts = reader.row_counts()
    return reader.engine_totals("prod", "chat", ALL_TIME).tokens, [counts[table] for table in SUMMED]


def orderly_sums(folder: Path, ledgers: Sequence[Sequence[FeedBatch]]) -> tuple[object, ...]:
    """What one collector has in a file that nothing happened to."""
    with Store.open(folder / "orderly.duckdb", clock=lambda: START) as store:
        for ledger in ledgers:
            store.append(ledger)
        return sums(store.reader())


@pytest.fixture(params=["folder", "s3"])
def data_folder(request, tmp_path):
    """Where the lake's files are."""
    return tmp_path if request.param == "folder" else f"s3://{request.getfixturevalue('bucket')}/data"


@dataclass
class Run:
    """Three collectors of one lake, their exporters, and how long it took to catch up."""

    collectors: Sequence[subprocess.Popen[str]]
    exporters: Publishing
    reader: DuckDbReader
    seconds: dict[str, float] = field(default_factory=dict)
    """How long after the last batch everything was there, by what had happened."""

    def catch_up(self, what: str) -> None:
        """Wait until the lake has everything that was published."""
        began = time.monotonic()
        due = EXPORTERS * self.exporters.published
        await_true(
            lambda: self._heard() >= due, f"a quarter is stored {what}", patience_seconds=PATIENCE_SECONDS
        )
        self.seconds[what] = time.monotonic() - began

    def feeds(self) -> dict[str, tuple[int, int]]:
        """Return batches received and missing by exporter."""
        found = (one for one in self.reader.coverage(ALL_TIME) if one.source.kind == "feed")
        return {one.source.owner: (one.received, one.missing) for one in found}

    def _heard(self) -> int:
        return sum(map(sum, self.feeds().values()))


@pytest.fixture
def run(postgres, data_folder, tmp_path) -> Iterator[Run]:
    """Collectors that are ready, and nothing published yet."""
    lake = postgres.lake(data_folder, lease_seconds=LEASE_SECONDS)
    with ExitStack() as opened:
        exporters = opened.enter_context(closing(Publishing()))
        collectors = []
        for n in range(3):
            collectors.append(start_collector(lake, exporters.feeds, tmp_path, f"collector-{n}"))
            opened.callback(end, collectors[-1])
        for one in collectors:
            assert one.stdout is not None
            assert one.stdout.readline() == READY
        yield Run(collectors, exporters, opened.enter_context(closing(DuckDbReader.open(lake.name))))


def befall(run: Run) -> None:
    """Publish it all: a quarter for three collectors, for one while the others fall, for one, and for two."""
    killed, stopped, lone = run.collectors
    exporters = run.exporters
    exporters.publish(BATCHES // 4)
    run.catch_up("by three")
    publishing = threading.Thread(
        target=exporters.publish, args=(BATCHES // 2,), kwargs={"pause_seconds": 0.02}
    )
    publishing.start()
    await_true(lambda: exporters.published > BATCHES // 4 + 10, "the second quarter is on its way")
    killed.kill()
    stopped.send_signal(signal.SIGSTOP)
    publishing.join()
    run.catch_up("with one killed and one stopped")
    exporters.publish(3 * BATCHES // 4)
    run.catch_up("by one")
    stopped.send_signal(signal.SIGCONT)
    exporters.publish(BATCHES)
    run.catch_up("with the one that woke")
    for one in (stopped, lone):
        one.terminate()
        assert one.wait(60) == 0


@pytest.mark.long
def test_one_killed_and_one_stopped_collector_lose_nothing_and_store_nothing_twice(run, tmp_path, capsys):
    """Who is left takes their exporters; what the stopped one had in hand is there when it wakes."""
    befall(run)

    ledgers, reader = run.exporters.ledgers, run.reader
    entries = [entry for ledger in ledgers for batch in ledger for entry in batch.entries]
    admissions = [entry for entry in entries if isinstance(entry, RequestRecord)]
    counted = [one for one in admissions if one.counts]
    with capsys.disabled():
        print(
            f"\n{EXPORTERS} exporters, {EXPORTERS * BATCHES:,} batches, {len(admissions):,} admissions, "
            f"lease {LEASE_SECONDS:g} s; a quarter was stored",
            *(f"  {what}: {seconds:.1f} s after the last batch" for what, seconds in run.seconds.items()),
            sep="\n",
        )
    assert run.feeds() == {feed.name: (BATCHES, 0) for feed in run.exporters.feeds}
    assert reader.totals("prod", "chat", ALL_TIME).tokens == sum((one.tokens for one in counted), NO_TOKENS)
    assert reader.row_counts()["requests"] == len(admissions)
    assert sums(reader) == orderly_sums(tmp_path, ledgers)
    window = reader.window("prod", "chat", ALL_TIME)
    assert window.accesses == sum(len(one.block_hashes) for one in counted)
