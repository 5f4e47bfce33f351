"""What waits to be committed is bounded, and nothing received is dropped."""

from __future__ import annotations

import threading

import pytest

from collectors.buffer import Buffer, weight_rows
from tests.ledgers import admission, batch
from tierscope.domain.batch import FeedGap
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def buffer(clock):
    return Buffer(10, clock)


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        (FeedGap("node", 1, 0, 99), 1),
        (batch(0), 1),
        (batch(0, TierSample(Tier.L1, "holder", 0.0)), 2),
        (batch(0, admission(range(31))), 2),
        (batch(0, admission(range(320)), admission(range(64))), 1 + 11 + 3),
    ],
    ids=["a gap", "an empty batch", "a reading", "a short chain", "long chains"],
)
def test_long_chains_weigh_more(item, rows):
    """A bound in rows is one in memory, whatever the prompts' lengths."""
    assert weight_rows(item) == rows


def test_enough_rows_are_handed_out_at_once(buffer):
    """A full flush does not wait for its time."""
    buffer.put([batch(0), batch(1)])
    buffer.put([batch(2)])

    assert buffer.take(flush_rows=3, flush_seconds=1e9) == [batch(0), batch(1), batch(2)]


def test_a_few_rows_are_handed_out_after_their_time(buffer, clock):
    """The oldest item waits no longer than the flush time."""
    buffer.put([batch(0)])
    clock.now = 5.0

    assert buffer.take(flush_rows=100, flush_seconds=5.0) == [batch(0)]


def test_a_closed_buffer_hands_out_the_rest_and_ends(buffer):
    """What was received before the end is committed."""
    buffer.put([batch(0)])
    buffer.close()

    assert buffer.take(flush_rows=100, flush_seconds=1e9) == [batch(0)]
    assert buffer.take(flush_rows=100, flush_seconds=1e9) is None


def test_a_full_buffer_makes_its_feed_wait(buffer):
    """Items beyond the bound come in only as others leave."""
    buffer.put([batch(n) for n in range(9)])
    entered = threading.Event()

    def put() -> None:
        buffer.put([batch(9), batch(10)])
        entered.set()

    feed = threading.Thread(target=put)
    feed.start()
    assert not entered.wait(0.05)

    taken = buffer.take(flush_rows=1, flush_seconds=0)
    feed.join()

    assert len(taken) == 9
    assert buffer.take(flush_rows=1, flush_seconds=0) == [batch(9), batch(10)]


def test_one_item_larger_than_the_bound_still_passes(buffer):
    """A bound must not stop a feed for ever."""
    large = batch(0, *(TierSample(Tier.L1, "holder", float(n)) for n in range(50)))

    buffer.put([large])

    assert buffer.take(flush_rows=1, flush_seconds=0) == [large]


def test_at_the_end_no_feed_waits(buffer):
    """Feeds that end put what they hold, full or not."""
    buffer.put([batch(n) for n in range(9)])
    buffer.hurry()

    buffer.put([batch(9), batch(10)])

    assert len(buffer.take(flush_rows=1, flush_seconds=0)) == 11


def test_what_is_taken_waits_until_the_next_is_asked_for(buffer, clock):
    """The oldest of all that is not committed counts, not the oldest that is still here."""
    assert buffer.waited_seconds() == 0
    buffer.put([batch(0)])
    clock.now = 3.0
    buffer.take(flush_rows=1, flush_seconds=0)
    buffer.put([batch(1)])
    clock.now = 10.0
    assert buffer.waited_seconds() == 10.0

    buffer.take(flush_rows=1, flush_seconds=0)
    clock.now = 12.0
    assert buffer.waited_seconds() == 9.0

    buffer.close()
    buffer.take(flush_rows=1, flush_seconds=0)
    assert buffer.waited_seconds() == 0
