"""A history of 10⁹ block accesses: what it takes on disk, to query, and to read back, also while it grows."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import pytest

from tests import long_history
from tests.crashing import FORKS
from tests.exporting import await_true
from tests.long_sample import SAMPLED
from tests.memory import peak_bytes
from tierscope.cli.benches.storage import ENGINE, START, decoded, mixed_payloads
from tierscope.cli.spread import spread
from tierscope.domain.window import TimeSpan
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.storage.serving import RemoteReader
from tierscope.storage.store import Store
from tierscope.traces.open import read_trace
from tierscope.traces.rows import select

pytestmark = pytest.mark.long

ROUNDS = 3 if SAMPLED else 18
REQUESTS = 2_000 if SAMPLED else 10**9
ASKED = 20 if SAMPLED else 100
WHO = ENGINE.namespace, ENGINE.endpoint


@pytest.fixture(scope="module")
def claude(traces):
    """The Claude sessions, spread over twelve hours; in a sample, their first requests."""
    whole = spread(read_trace(traces / "claude_code_sessions.parquet"), 12.0, 1)
    return select(whole, np.argsort(whole.at_ms, kind="stable")[:REQUESTS])


@pytest.fixture(scope="module")
def history(claude, tmp_path_factory):
    """The store's file; written as feeds write it, then repeated."""
    path = tmp_path_factory.mktemp("history") / "store.duckdb"
    clock = _end(claude).__float__
    with Store.open(path, clock=clock) as store:
        made = (store.append(batch) for batch in long_history.batches(claude))
        _tell("one round written, batches made on the way", lambda: list(made))
        with store._database.transaction() as cursor:
            long_history.repeat(cursor, claude, ROUNDS)
    accesses = claude.accesses * ROUNDS
    size = path.stat().st_size
    print(f"\n{accesses / 1e6:,.0f} M block accesses, {size / 1e6:,.1f} MB, {size / accesses:.3f} bytes each")
    yield path
    path.unlink()


def _end(claude) -> float:
    return START + ROUNDS * long_history.round_seconds(claude)


def _rounds(claude) -> list[TimeSpan]:
    seconds = long_history.round_seconds(claude)
    starts = [START + number * seconds for number in range(ROUNDS)]
    return [TimeSpan(start, start + seconds) for start in starts]


def _last_hour(claude) -> TimeSpan:
    """The hour of the last round with most requests: later ones are of few sessions that went on."""
    hours = claude.at_ms // 3_600_000
    busiest = int(np.bincount(hours).argmax())
    start = _rounds(claude)[-1].start_unix_seconds + 3600 * busiest
    return TimeSpan(start, start + 3600)


def _tell(what: str, work: Callable[[], object]) -> object:
    """Do something, and print what it took."""
    cpu, clock = time.process_time(), time.perf_counter()
    found = work()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    most = peak_bytes() / 1e6
    load = os.getloadavg()[0]
    print(
        f"\n{what}: {clock:.2f} s, {cpu:.2f} s of a core, most memory so far {most:,.0f} MB, load {load:.0f}"
    )
    return found


def test_views_and_windows_of_it(claude, history):
    """Sums of all of it, blocks of its busiest hour, and every chain again as arrays, a round at a time."""
    hour = _last_hour(claude)
    spanned = f"({hour.start_unix_seconds}, {hour.end_unix_seconds})"
    with Store.open(history, clock=lambda: _end(claude)) as store:

        def rows(query: str) -> list[tuple[object, ...]]:
            with store._database.reading() as cursor:
                return cursor.execute(query).fetchall()

        hours = _tell("tier_hits_per_hour, all", lambda: rows("FROM tier_hits_per_hour"))
        _tell("tier_hits_per_minute, all", lambda: rows("FROM tier_hits_per_minute"))
        _tell("block_accesses, an hour", lambda: rows(f"SELECT count(*) FROM block_accesses{spanned}"))
        reuse = f"SELECT tier, count(*), median(interval_seconds) FROM block_reuse{spanned} GROUP BY tier"
        _tell("block_reuse, an hour", lambda: rows(reuse))
        reader, accesses = store.reader(), []

        def read_back() -> None:
            accesses.extend(reader.window(*WHO, one).accesses for one in _rounds(claude))

        _tell("every chain as arrays, a round at a time", read_back)

    assert accesses == [claude.accesses] * ROUNDS
    assert sum(row[5] for row in hours if row[4] == "l0") + sum(
        row[5] for row in hours if row[4] != "l0"
    ) == (int(claude.input_tokens.sum()) * ROUNDS)


class Feed(NamedTuple):
    """Where a feed can be read."""

    endpoint: str
    replay_endpoint: str


def _publish(told: Connection) -> None:
    """Publish block events as fast as one can, say where, and end when told anything."""
    events = list(decoded(mixed_payloads()))
    with closing(
        FeedPublisher("history-2", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", 64 * 2**20, time.time)
    ) as feed:
        told.send(Feed(feed.endpoint, feed.replay_endpoint))
        while True:
            for start in range(0, len(events), 500):
                feed.publish(events[start : start + 500])
                if told.poll(0.001):
                    return


@pytest.fixture
def feed():
    """An exporter's feed on which a process of its own publishes: who asks waits for no thread of it."""
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=_publish, args=(theirs,))
    process.start()
    yield ours.recv()
    ours.send("end")
    process.join()


@pytest.fixture
def served(history, feed, tmp_path):
    """`tierscope serve` on the history and the feed: the collector's socket, its pid and the API's."""
    socket = tmp_path / "socket"
    config = tmp_path / "config.yaml"
    config.write_text(
        json.dumps(
            {
                "collector": {
                    "store_path": str(history),
                    "socket_path": str(socket),
                    "listen_port": 0,
                    "keep_raw_seconds": 1e10,
                    "keep_hourly_seconds": 1e10,
                    "feeds": [{"name": "history-2", **feed._asdict()}],
                },
                "api": {"listen_port": 0},
            }
        )
    )
    command = [sys.executable, "-m", "tierscope.cli", "serve", "--config", config, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield socket, int(said["collector_pid"]), process.pid
        process.send_signal(signal.SIGINT)
        process.wait(120)


def test_the_last_hour_is_asked_for_while_events_come_in(claude, served):
    """Both processes of `serve`: the collector takes in a feed and answers about the last hour meanwhile."""
    socket, collector, api = served
    hour = _last_hour(claude)
    with closing(RemoteReader(socket, timeout_seconds=600)) as reader:
        await_true(lambda: reader.row_counts()["block_events"] > 0, "events come in", patience_seconds=120)
        before, began = reader.row_counts()["block_events"], time.perf_counter()
        for what, ask in {
            "totals": lambda: reader.totals(*WHO, hour),
            "coverage": lambda: reader.coverage(hour),
            "window": lambda: reader.window(*WHO, hour),
        }.items():
            took = []
            for _ in range(ASKED):
                asked = time.perf_counter()
                ask()
                took.append(time.perf_counter() - asked)
            median, most = statistics.median(took) * 1e3, np.quantile(took, 0.95) * 1e3
            print(f"\n{what} of the last hour: median {median:.0f} ms, 95 % {most:.0f} ms", end="")
        stored = reader.row_counts()["block_events"] - before
        rate = stored / (time.perf_counter() - began) / 1e3
        print(f"\nmeanwhile {rate:.0f} k rows of block events a second, load {os.getloadavg()[0]:.0f}")
        found = _tell("a whole round through the socket", lambda: reader.window(*WHO, _rounds(claude)[-1]))
        of_collector, of_api = peak_bytes(collector) / 1e6, peak_bytes(api) / 1e6
        print(f"collector: {of_collector:,.0f} MB at most, API: {of_api:,.0f} MB")

    assert found.accesses == claude.accesses
    assert stored > 0
