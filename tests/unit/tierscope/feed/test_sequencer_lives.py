"""Lives of a publisher, without sockets: restarts that are heard, missed or found later, and resuming."""

from __future__ import annotations

from tests.publishing import (
    Publisher,
    expected,
    publish,
    replay_while_wanted,
    started,
)
from tierscope.feed.messages import Gap, Message, Restart
from tierscope.feed.sequencer import Sequencer


def test_a_sequence_that_falls_to_zero_is_a_restart():
    """After 500 comes 0: the old life ends, the new one begins at 0."""
    publisher = Publisher()
    publish(publisher, 501)
    sequencer = started(publisher)
    publisher.restart()
    messages = publish(publisher, 2)

    sequencer.live(*messages[0])
    sequencer.live(*messages[1])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart(), *expected(messages)]
    assert sequencer.tally.restarts == 1


def test_a_restart_without_replay_is_believed_at_once():
    """With nobody to ask, a low sequence says it all, and what came before it is lost."""
    publisher = Publisher()
    sequencer = Sequencer(can_replay=False)
    for message in publish(publisher, 3):
        sequencer.live(*message)
    sequencer.take()
    publisher.restart()
    messages = publish(publisher, 2)

    sequencer.live(*messages[1])

    assert sequencer.take() == [Restart(), Gap(0, 0), *expected(messages[1:])]


def test_a_new_life_that_happens_to_fit_is_still_a_restart():
    """The new publisher is first heard beyond the old last sequence; its anchor gives it away."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()
    messages = publish(publisher, 6)

    sequencer.live(*messages[5])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart(), *expected(messages)]


def test_a_new_life_that_continues_the_count_is_found_on_reconnection():
    """Even a first message with exactly the next sequence waits until its publisher is vouched for."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()
    messages = publish(publisher, 4)

    sequencer.reconnected()
    sequencer.live(*messages[3])
    waiting = sequencer.take()
    replay_while_wanted(sequencer, publisher)

    assert waiting == []
    assert sequencer.take() == [Restart(), *expected(messages)]


def test_a_quiet_restart_is_found_by_checking():
    """A publisher that restarted and said nothing yet no longer has the last message."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()

    sequencer.check()
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart()]


def test_a_publisher_that_never_replays_is_not_taken_for_a_restarted_one():
    """A replay address with an empty buffer proves nothing, however often it says so."""
    sequencer = Sequencer()
    sequencer.live(0, b"zero")

    for _ in range(3):
        sequencer.check()
        replay_while_wanted(sequencer, Publisher())

    assert sequencer.take() == [Message(0, b"zero")]


def test_two_payloads_of_one_sequence_are_a_restart_without_a_question():
    """One life says one thing at one place; no answer is waited for."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()
    messages = publish(publisher, 1)

    sequencer.live(*messages[0])

    assert sequencer.take() == [Restart(), *expected(messages)]


def test_messages_of_the_old_life_in_hand_are_not_lost_with_it():
    """The old publisher died before it could close a gap: the gap is reported, the rest handed on."""
    publisher = Publisher()
    sequencer = started(publisher)
    old = publish(publisher, 5)
    sequencer.live(*old[0])
    sequencer.live(*old[4])
    publisher.restart()
    new = publish(publisher, 1)

    sequencer.live(*new[0])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [
        *expected(old[:1]),
        Gap(1, 3),
        *expected(old[4:]),
        Restart(),
        *expected(new),
    ]


def test_a_restart_whose_new_life_overran_its_ring_reports_what_left_it():
    """The new life is heard late: what it can no longer replay is a gap from 0."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()
    publisher.ring = 2
    messages = publish(publisher, 4)

    sequencer.reconnected()
    sequencer.live(*messages[1])
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart(), Gap(0, 0), *expected(messages[1:])]


def test_a_life_that_came_and_went_unheard_is_not_mixed_into_the_next():
    """Two restarts before the first answer: the life between them was never vouched for."""
    publisher = Publisher(ring=2)
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()

    sequencer.reconnected()
    sequencer.live(*publisher.publish())
    publisher.restart()
    messages = publish(publisher, 3)
    sequencer.reconnected()
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart(), Gap(0, 0), *expected(messages[1:])]


def test_resuming_begins_at_the_sequence_asked_for():
    """The message before it is asked for too, recognised, and not handed on again."""
    publisher = Publisher()
    messages = publish(publisher, 5)
    sequencer = Sequencer(start_sequence=3, recognise=lambda payload: payload == messages[2][1])

    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == expected(messages[3:])


def test_resuming_with_another_publisher_is_a_restart():
    """The message before it is not the one remembered: all of the new life is wanted."""
    publisher = Publisher()
    messages = publish(publisher, 5)
    sequencer = Sequencer(start_sequence=3, recognise=lambda _: False)

    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart(), *expected(messages)]


def test_resuming_with_a_publisher_that_said_less_is_a_restart():
    """It cannot be the one that had published up to there."""
    publisher = Publisher()
    messages = publish(publisher, 1)
    sequencer = Sequencer(start_sequence=3, recognise=lambda _: True)

    replay_while_wanted(sequencer, publisher)

    assert sequencer.take() == [Restart(), *expected(messages)]
