"""The order of a stream, without sockets: losses, duplicates, replays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.publishing import (
    Publisher,
    expected,
    live_paths,
    play,
    publish,
    replay,
    replay_while_wanted,
    span_of,
    started,
)
from tierscope.feed.messages import Gap, Message, Restart
from tierscope.feed.sequencer import Sequencer


def test_what_was_published_before_we_listened_is_replayed():
    """A slow joiner misses nothing that the publisher still has."""
    publisher = Publisher()
    messages = publish(publisher, 5)
    sequencer = Sequencer()

    sequencer.live(*publisher.publish())
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take()[:5] == expected(messages)
    assert sequencer.tally.received == 6


def test_what_was_published_before_we_listened_is_told_apart():
    """A lost message that a later replay brings was published under our eyes."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = Sequencer()
    sequencer.live(*publisher.publish())
    replay_while_wanted(sequencer, publisher)
    publisher.publish()  # lost on its way
    sequencer.live(*publisher.publish())
    replay_while_wanted(sequencer, publisher)

    assert [(item.sequence, item.before) for item in sequencer.take()] == [
        (0, True), (1, True), (2, True), (3, False), (4, False), (5, False)
    ]  # fmt: skip


def test_until_a_replay_has_ended_nobody_knows_what_was_published_before_us():
    """A silent replay address is asked again; a publisher that begins anew does so under our eyes."""
    publisher = Publisher()
    publish(publisher, 2)
    sequencer = Sequencer()
    sequencer.begin_replay()
    sequencer.replay_ended(complete=False)
    sequencer.check()
    replay(sequencer, publisher)
    publisher.restart()
    publish(publisher, 1)
    sequencer.reconnected()
    replay_while_wanted(sequencer, publisher)

    told = [item for item in sequencer.take() if isinstance(item, Message)]
    assert [(item.payload, item.before) for item in told] == [
        (b"0 of life 0", True), (b"1 of life 0", True), (b"0 of life 1", False)
    ]  # fmt: skip


def test_messages_in_order_are_handed_on_at_once():
    """Nothing waits for a replay while no message is missing."""
    publisher = Publisher()
    sequencer = started(publisher)

    sequencer.check()
    sequencer.begin_replay()
    messages = publish(publisher, 2)
    for message in messages:
        sequencer.live(*message)

    assert sequencer.take() == expected(messages)


def test_a_replay_closes_a_gap():
    """What the live path lost comes back in its place."""
    publisher = Publisher()
    sequencer = started(publisher)
    messages = publish(publisher, 4)

    sequencer.live(*messages[0])
    sequencer.live(*messages[3])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == expected(messages)
    assert sequencer.tally.missing == 0


def test_what_left_the_ring_is_a_gap_of_exactly_that_range():
    """The ring holds the newest three; the three before them are lost, the rest is not."""
    publisher = Publisher(ring=3)
    sequencer = started(publisher)
    messages = publish(publisher, 7)

    sequencer.live(*messages[0])
    sequencer.live(*messages[6])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [*expected(messages[:1]), Gap(1, 3), *expected(messages[4:])]
    assert sequencer.tally.missing == 3


def test_live_messages_inside_a_lost_range_are_kept():
    """A message in hand is not lost because the ring no longer has it."""
    publisher = Publisher(ring=2)
    sequencer = started(publisher)
    messages = publish(publisher, 8)

    for index in (0, 3, 7):
        sequencer.live(*messages[index])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [
        *expected(messages[:1]),
        Gap(1, 2),
        *expected(messages[3:4]),
        Gap(4, 5),
        *expected(messages[6:]),
    ]


def test_a_gap_without_replay_is_reported_at_once():
    """With nobody to ask there is nothing to wait for."""
    sequencer = Sequencer(can_replay=False)

    sequencer.live(2, b"two")

    assert sequencer.take() == [Gap(0, 1), Message(2, b"two")]


def test_a_gap_of_a_publisher_that_never_replays_is_reported():
    """An empty answer to a question about a hole means that the hole stays."""
    sequencer = Sequencer()
    sequencer.live(0, b"zero")
    sequencer.live(5, b"five")

    replay_while_wanted(sequencer, Publisher())

    assert sequencer.take() == [Message(0, b"zero"), Gap(1, 4), Message(5, b"five")]


def test_a_late_duplicate_is_dropped_without_a_question():
    """The same payload at a sequence already delivered is no restart."""
    publisher = Publisher()
    messages = publish(publisher, 3)
    sequencer = started(publisher)

    sequencer.live(*messages[0])

    assert not sequencer.wants_replay
    assert sequencer.take() == []
    assert sequencer.tally.duplicates == 1


def test_a_silent_replay_ends_in_a_gap():
    """When no answer comes, what is held goes on and the hole is reported."""
    publisher = Publisher()
    sequencer = started(publisher)
    messages = publish(publisher, 6)

    for index in (2, 5):
        sequencer.live(*messages[index])
    sequencer.begin_replay()
    sequencer.replay_ended(complete=False)

    assert sequencer.take() == [Gap(0, 1), *expected(messages[2:3]), Gap(3, 4), *expected(messages[5:])]


def test_a_replay_cut_short_is_asked_again():
    """An answer that stops without its end marker brought us further; the rest is asked for."""
    publisher = Publisher()
    messages = publish(publisher, 4)
    sequencer = Sequencer()
    sequencer.live(*messages[3])
    sequencer.begin_replay()

    sequencer.replayed(*messages[0])
    sequencer.replay_ended(complete=False)
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == expected(messages)


def test_a_hole_inside_a_replay_is_asked_for_again():
    """A publisher may drop answers to a slow reader; they come with the next answer."""
    publisher = Publisher()
    messages = publish(publisher, 6)
    sequencer = Sequencer()
    sequencer.begin_replay()

    for index in (0, 1, 4, 5):
        sequencer.replayed(*messages[index])
    sequencer.replay_ended(complete=True)
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == expected(messages)


def test_a_hole_right_after_the_anchor_is_given_up():
    """No queue was full there: the publisher has no such message, and asking again would not help."""
    publisher = Publisher()
    messages = publish(publisher, 4)
    sequencer = Sequencer()

    for _ in range(2):
        sequencer.begin_replay()
        for index in (0, 2, 3):
            sequencer.replayed(*messages[index])
        sequencer.replay_ended(complete=True)

    assert sequencer.take() == [*expected(messages[:1]), Gap(1, 1), *expected(messages[2:])]
    assert not sequencer.wants_replay


def test_a_message_its_publisher_does_not_know_is_set_aside():
    """A damaged sequence number neither opens a gap of billions nor ends the stream."""
    publisher = Publisher()
    publish(publisher, 2)
    sequencer = started(publisher)

    sequencer.live(2**60, b"damaged")
    replay_while_wanted(sequencer, publisher)
    sequencer.live(*publisher.publish())

    assert sequencer.take() == expected([(2, publisher.published[2])])
    assert sequencer.tally.strays == 1


def test_what_is_held_back_is_bounded():
    """Beyond the bound the live path must wait; the answer to the question frees it."""
    publisher = Publisher()
    sequencer = started(publisher, buffer_bytes=100)
    messages = publish(publisher, 30)

    for message in messages[1:]:
        if sequencer.full:
            break
        sequencer.live(*message)
    full = sequencer.full
    replay_while_wanted(sequencer, publisher)

    assert full
    assert not sequencer.full
    assert sequencer.take() == expected(messages)


@given(path=live_paths)
def test_any_losses_duplicates_and_reorders_yield_each_message_once_in_order(path):
    """With a replay that works, the live path cannot do anything to the stream."""
    publisher = Publisher()
    sequencer = Sequencer()
    heard = play(path, publisher, sequencer)

    assert heard == [Message(index, payload) for index, payload in enumerate(publisher.published)]
    assert sequencer.tally.missing == 0


@given(path=live_paths, ring=st.integers(1, 5))
def test_whatever_the_ring_loses_is_a_gap_of_exactly_that(path, ring):
    """Messages and gaps together count up to the newest message without a break or an overlap."""
    publisher = Publisher(ring=ring)
    sequencer = Sequencer()
    items = play(path, publisher, sequencer)

    following = 0
    for item in items:
        assert span_of(item)[0] == following
        following = span_of(item)[1] + 1
    assert following == len(publisher.published)
    assert sequencer.tally.missing == sum(item.messages for item in items if isinstance(item, Gap))


@given(path=live_paths, restarts=st.sets(st.integers(0, 60), max_size=4))
def test_lives_are_never_mixed(path, restarts):
    """Between two restarts stands one life, in order; the last life is complete."""
    publisher = Publisher()
    publisher.publish()
    items = play(path, publisher, started(publisher), restarts)

    lives, following = [0], 1
    for item in items:
        if isinstance(item, Restart):
            lives, following = [], 0
            continue
        assert span_of(item)[0] == following
        following = span_of(item)[1] + 1
        if isinstance(item, Message):
            assert item.payload.startswith(b"%d of" % item.sequence)
            lives.append(int(item.payload.rpartition(b" ")[2]))
            assert len(set(lives)) == 1
    assert following == len(publisher.published)
