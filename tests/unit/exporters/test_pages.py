"""One thread a page: it is read again and again, and survives what a reading does."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from exporters.health import Health, Units, Voice
from exporters.ledger import Ledger
from exporters.oddities import Oddities
from exporters.pages import Desk, PagePoller, PageReading
from tests.exporting import await_true
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierSample
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.tiers import Tier
from tierscope.registry import metrics


class Page:
    """Plays what it is given, one reading after the other, and then the last one for ever."""

    source = SourceId(SourceKind.CURVINE_MASTER, "pool")
    units = 3

    def __init__(self, *readings):
        self.readings = readings
        self.polls = 0

    def read(self, fetcher, at_unix_seconds):
        reading = self.readings[min(self.polls, len(self.readings) - 1)]
        self.polls += 1
        if isinstance(reading, Exception):
            raise reading
        return reading


DOWN = SourceUnreadable("nobody there", where="http://pool", fix="start it")


def full(bytes_used):
    return PageReading(
        entries=[TierSample(Tier.L2, "pool", 1.0, used_bytes=bytes_used)], units=Units(received=2, missing=1)
    )


@pytest.fixture
def said():
    return []


@pytest.fixture
def desk(said):
    def say(message, *args):
        said.append(message % args)

    return Desk(
        Ledger("exporter", lambda _: None), Oddities(say, monotonic=time.monotonic), time.time, time.monotonic
    )


@contextmanager
def polling(page, desk, said):
    def say(message, *args):
        said.append(message % args)

    health = Health(
        page.source, fresh_seconds=60, since_unix_seconds=0, monotonic=time.monotonic, voice=Voice(say, say)
    )
    poller = PagePoller(page, health, desk, poll_seconds=0.001, timeout_seconds=1)
    poller.start()
    try:
        yield health
    finally:
        poller.stop()
        poller.join()


def shown(samples, metric):
    return [sample.value for sample in samples if sample.metric is metric]


def test_a_page_is_read_again_and_again(desk, said):
    """Each reading is handed on with its units, and the source is up."""
    page = Page(full(10), full(20))

    with polling(page, desk, said) as health:
        await_true(lambda: shown(desk.ledger.samples(), metrics.USED_BYTES) == [20], "the second is shown")

    assert shown(health.samples(), metrics.SOURCE_UP) == [1]
    assert shown(health.samples(), metrics.COMPLETENESS) == [2 / 3]


def test_a_source_that_fails_loses_its_readings_and_nothing_else(desk, said):
    """A failed poll leaves as many units missing as the source has; it is told once."""
    page = Page(full(10), DOWN)

    with polling(page, desk, said) as health:
        await_true(lambda: page.polls >= 4, "it failed three times")

    missing = shown(health.samples(), metrics.SOURCE_MESSAGES)[1]
    assert missing >= 1 + 2 * page.units
    assert shown(desk.ledger.samples(), metrics.USED_BYTES) == []
    assert len(said) == 1


def test_a_fault_of_ours_does_not_silence_a_source_for_good(desk, said):
    """The reader goes on after an exception nobody thought of."""
    page = Page(KeyError("a fault of ours"), full(30))

    with polling(page, desk, said):
        await_true(lambda: shown(desk.ledger.samples(), metrics.USED_BYTES) == [30], "it was read after all")

    assert "a fault of ours" in said[0]
    assert "is back" in said[1]
