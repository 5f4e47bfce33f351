"""A collector that is killed in the middle stores everything after all, or says exactly what is missing."""

from __future__ import annotations

import random
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.collector_process import started_collector
from tests.exporting import await_true
from tests.ledgers import START, Ledger
from tierscope.domain.batch import FeedBatch
from tierscope.domain.events import LedgerEntry, SourceCoverage
from tierscope.domain.requests import NO_TOKENS, RequestRecord, TokenSplit
from tierscope.domain.settings import CollectorSettings, FeedSource
from tierscope.domain.window import TimeSpan
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.serving import RemoteReader, socket_path

ALL_TIME = TimeSpan(0.0, 1e11)
BATCHES = 400
ROOM_FOR_ALL = 1 << 26


def start_collector(store: Path, publishers: list[FeedPublisher]) -> subprocess.Popen[str]:
    settings = CollectorSettings(
        store_path=str(store),
        feeds=tuple(
            FeedSource(name=p.name, endpoint=p.endpoint, replay_endpoint=p.replay_endpoint)
            for p in publishers
        ),
        flush_seconds=0.01,
        flush_rows=50,
        keep_raw_seconds=1e10,  # the ledgers are of long ago
        keep_hourly_seconds=2e10,
    )
    return started_collector(settings, store.parent)


def end(collector: subprocess.Popen[str], how: signal.Signals) -> int:
    collector.send_signal(how)
    status = collector.wait()
    if collector.stdout is not None:
        collector.stdout.close()
    return status


def publisher(name: str, buffer_bytes: int) -> FeedPublisher:
    return FeedPublisher(name, "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", buffer_bytes, lambda: START)


def feed_coverage(reader) -> dict[str, SourceCoverage]:
    return {c.source.owner: c for c in reader.coverage(ALL_TIME) if c.source.kind == "feed"}


def heard(store: Path) -> int:
    """Batches that the running collector has stored or knows to be lost; 0 while it is not there."""
    if not socket_path(store).exists():
        return 0
    with closing(RemoteReader(socket_path(store))) as reader:
        return sum(c.received + c.missing for c in feed_coverage(reader).values())


def served(entries: list[LedgerEntry]) -> TokenSplit:
    return sum((e.tokens for e in entries if isinstance(e, RequestRecord) and e.counts), NO_TOKENS)


def entries_of(batches: list[FeedBatch]) -> list[LedgerEntry]:
    return [entry for batch in batches for entry in batch.entries]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_collector_killed_twice_has_everything_in_the_end(tmp_path, seed):
    """While exporters can replay, kills cost nothing: tokens, requests and batches are all there, once."""
    rng = random.Random(seed)
    store = tmp_path / "store.duckdb"
    publishers = [publisher(f"node-{n}", ROOM_FOR_ALL) for n in (1, 2)]
    ledgers = [Ledger(seed, exporter=p.name).batches(BATCHES) for p in publishers]
    published = 0
    for target in (BATCHES // 3, 2 * BATCHES // 3):
        collector = start_collector(store, publishers)
        enough = rng.randrange(2 * published + 1, 2 * target)
        for number in range(published, target):
            for feed, ledger in zip(publishers, ledgers, strict=True):
                feed.publish(ledger[number].entries)
        published = target
        await_true(lambda enough=enough: heard(store) >= enough, f"{enough} batches are stored")
        end(collector, signal.SIGKILL)
        (tmp_path / "store.duckdb.sock").unlink()
    for number in range(published, BATCHES):
        for feed, ledger in zip(publishers, ledgers, strict=True):
            feed.publish(ledger[number].entries)
    collector = start_collector(store, publishers)
    await_true(lambda: heard(store) == 2 * BATCHES, "all batches are stored")
    assert end(collector, signal.SIGTERM) == 0
    for feed in publishers:
        feed.close()

    entries = [entry for ledger in ledgers for entry in entries_of(ledger)]
    with closing(DuckDbReader.open(store)) as reader:
        covered = feed_coverage(reader)
        assert {name: (c.received, c.missing) for name, c in covered.items()} == {
            "node-1": (BATCHES, 0),
            "node-2": (BATCHES, 0),
        }
        assert reader.totals("prod", "chat", ALL_TIME).tokens == served(entries)
        assert reader.row_counts()["requests"] == sum(isinstance(e, RequestRecord) for e in entries)
        window = reader.window("prod", "chat", ALL_TIME)
        chains = sum(len(e.block_hashes) for e in entries if isinstance(e, RequestRecord) and e.counts)
        assert (window.totals(), window.accesses) == (served(entries), chains)


def test_what_an_exporter_could_not_replay_is_exactly_what_coverage_says(tmp_path):
    """A ring that overran while the collector was dead leaves a gap: stored plus missing is everything."""
    store = tmp_path / "store.duckdb"
    ledger = Ledger(3).batches(BATCHES)
    feed = publisher("node-1", buffer_bytes=10_000)
    collector = start_collector(store, [feed])
    for batch in ledger[:50]:
        feed.publish(batch.entries)
        await_true(lambda n=batch.position.sequence: heard(store) > n or n % 10, "it keeps up")
    end(collector, signal.SIGKILL)
    (tmp_path / "store.duckdb.sock").unlink()
    for batch in ledger[50:]:
        feed.publish(batch.entries)
    collector = start_collector(store, [feed])
    await_true(lambda: heard(store) == BATCHES, "every batch is stored or known to be lost")
    assert end(collector, signal.SIGTERM) == 0
    feed.close()

    with closing(DuckDbReader.open(store)) as reader:
        covered = feed_coverage(reader)["node-1"]
        assert covered.missing > 0
        assert covered.received + covered.missing == BATCHES
        with reader._database.reading() as cursor:
            gaps = cursor.execute(
                "SELECT first_sequence, last_sequence, missing FROM coverage "
                "WHERE missing > 0 AND kind = 'feed'"
            ).fetchall()
        lost = {n for first, last, _ in gaps for n in range(first, last + 1)}
        assert len(lost) == sum(missing for *_, missing in gaps) == covered.missing
        kept = [batch for batch in ledger if batch.position.sequence not in lost]
        assert reader.totals("prod", "chat", ALL_TIME).tokens == served(entries_of(kept))
        assert served(entries_of(kept)) != served(entries_of(ledger))
