"""A day in a minute: the collector's clock is ours, and misbehaves, while its retention runs all the time.

The hours pass as fast as they are stored. On the way the collector's clock is an hour ahead for a while, an
hour behind for a while, a second behind (a leap second as Unix counts it), and the time zone changes to
summer time and back. Requests become sums of their hour after two hours, and go after twelve.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from collectors.collector import Collector
from tests.exporting import await_true
from tests.ledgers import START, Ledger
from tests.long_sample import SAMPLED
from tierscope.domain.requests import NO_TOKENS, RequestRecord
from tierscope.domain.settings import CollectorSettings, FeedSource
from tierscope.domain.window import TimeSpan
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.storage.retention import Horizons, horizons

pytestmark = pytest.mark.long

HOURS = 24
STEP_SECONDS = 60.0 if SAMPLED else 6.0
AN_HOUR = round(3600 / STEP_SECONDS)
RAW_HOURS, SUM_HOURS = 2, 12
WRONG_BY = {6: 3600.0, 15: -3600.0, 18: -1.0}
"""Hours in which the clock is wrong, and by how much."""
ALL_TIME = TimeSpan(0.0, 1e11)
MOST_GROWTH = 1.25


class Clock:
    """Shows what a test says."""

    def __init__(self) -> None:
        self.unix_seconds = START

    def __call__(self) -> float:
        return self.unix_seconds


@pytest.fixture
def summer_time():
    """A time zone whose summer begins and ends within the day."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "STD0DST,J319/2,J319/12"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


class Day:
    """A collector with short retention, and the exporter whose batches it stores, hour by hour."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.clock = Clock()
        self.batches = Ledger(seed=3).batches(HOURS * AN_HOUR, step_seconds=STEP_SECONDS)
        self._feed = opened.enter_context(
            closing(FeedPublisher("node-1", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", 1 << 26, self.clock))
        )
        source = FeedSource(
            name="node-1", endpoint=self._feed.endpoint, replay_endpoint=self._feed.replay_endpoint
        )
        settings = CollectorSettings(
            store_path=str(folder / "store.duckdb"),
            feeds=(source,),
            keep_raw_seconds=3600.0 * RAW_HOURS,
            keep_hourly_seconds=3600.0 * SUM_HOURS,
            maintain_seconds=0.1,
            flush_seconds=0.05,
        )
        self.collector = Collector(settings, recommend=lambda *_, **__: None, clock=self.clock)
        opened.enter_context(closing(self.collector))
        self.collector.start()
        self.reader = self.collector.reader()

    def pass_hour(self, hour: int) -> int:
        """Publish an hour; return the bytes used once it is stored and what is due has become sums."""
        self.clock.unix_seconds = START + 3600 * (hour + 1) + WRONG_BY.get(hour, 0.0)
        for one in self.batches[hour * AN_HOUR : (hour + 1) * AN_HOUR]:
            self._feed.publish(one.entries)
        await_true(lambda: self._stored() == (hour + 1) * AN_HOUR, f"hour {hour} is stored")
        due = int(self.clock.unix_seconds // 3600) - RAW_HOURS
        await_true(
            lambda: hour < RAW_HOURS or (self.horizon().hourly or 0) >= due - 1, f"hour {hour} is reduced"
        )
        return self.collector._store.used_bytes()

    def horizon(self) -> Horizons:
        """Return up to when the store has sums, and nothing."""
        with self.reader._database.reading() as cursor:
            return horizons(cursor)

    def _stored(self) -> int:
        position = self.collector._store.position("node-1")
        return 0 if position is None else position.sequence + 1


@pytest.mark.usefixtures("summer_time")
def test_a_day_passes_and_the_store_stays_as_large_as_its_bounds(tmp_path, capsys):
    """What is kept adds up to what was sent in that time; the file stops growing once bounds are reached."""
    with ExitStack() as opened:
        day = Day(tmp_path, opened)
        used = [day.pass_hour(hour) for hour in range(HOURS)]
        gone = day.horizon().gone
        await_true(lambda: day.collector.alive, "every thread runs")
        kept = day.reader.totals("prod", "chat", ALL_TIME).tokens

    assert gone is not None
    assert gone >= START // 3600 + HOURS - SUM_HOURS - 1
    records = [entry for one in day.batches for entry in one.entries if isinstance(entry, RequestRecord)]
    sent = [one for one in records if one.counts and one.admitted_unix_seconds >= 3600 * gone]
    assert 0 < len(sent) < len(records)
    assert kept == sum((one.tokens for one in sent), NO_TOKENS)
    with capsys.disabled():
        print(
            f"\n{len(records):,} requests in {HOURS} h; kept {len(sent):,} as sums or rows; bytes by hour "
            f"{[round(size / 1e6, 2) for size in used]} MB; load {os.getloadavg()[0]:.0f}"
        )
    assert np.mean(used[-4:]) < MOST_GROWTH * np.mean(used[SUM_HOURS : SUM_HOURS + 4])
