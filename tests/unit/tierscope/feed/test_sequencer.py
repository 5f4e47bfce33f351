"""The order of a stream, without sockets: losses, duplicates, replays, restarts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tierscope.feed.messages import Gap, Message, Restart
from tierscope.feed.sequencer import Sequencer


@dataclass
class Publisher:
    """A publisher as the wire shows it: numbered payloads, the newest `ring` of which it can replay."""

    ring: int = 10**9
    life: int = 0
    published: list[bytes] = field(default_factory=list)

    def publish(self) -> tuple[int, bytes]:
        sequence = len(self.published)
        self.published.append(b"%d of life %d" % (sequence, self.life))
        return sequence, self.published[-1]

    def restart(self) -> None:
        self.life += 1
        self.published = []

    def answers(self, start: int) -> list[tuple[int, bytes]]:
        oldest = max(0, len(self.published) - self.ring)
        return list(enumerate(self.published))[max(start, oldest) :]


def replay(sequencer: Sequencer, publisher: Publisher) -> None:
    """Ask and answer once."""
    start = sequencer.begin_replay()
    for sequence, payload in publisher.answers(start):
        if not sequencer.in_replay:
            break
        sequencer.replayed(sequence, payload)
    sequencer.replay_ended(complete=True)


def replay_while_wanted(sequencer: Sequencer, publisher: Publisher, most: int = 50) -> None:
    """Ask and answer until nothing more is wanted."""
    for _ in range(most):
        if not sequencer.wants_replay:
            return
        replay(sequencer, publisher)
    raise AssertionError(f"{most} replays did not settle it")


def started(publisher: Publisher, **options) -> Sequencer:
    """A sequencer that has heard all its publisher has said so far."""
    sequencer = Sequencer(**options)
    replay_while_wanted(sequencer, publisher)
    sequencer.take()
    return sequencer


def publish(publisher: Publisher, count: int) -> list[tuple[int, bytes]]:
    return [publisher.publish() for _ in range(count)]


def expected(messages: list[tuple[int, bytes]]) -> list[Message]:
    return [Message(sequence, payload) for sequence, payload in messages]


def test_what_was_published_before_we_listened_is_replayed():
    """A slow joiner misses nothing that the publisher still has."""
    publisher = Publisher()
    messages = publish(publisher, 5)
    sequencer = Sequencer()

    sequencer.live(*publisher.publish())
    replay_while_wanted(sequencer, publisher)

    assert sequencer.take()[:5] == expected(messages)
    assert sequencer.tally.received == 6


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


def test_a_gap_without_replay_is_reported_at_once():
    """With nobody to ask there is nothing to wait for."""
    sequencer = Sequencer(can_replay=False)

    sequencer.live(2, b"two")

    assert sequencer.take() == [Gap(0, 1), Message(2, b"two")]


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


def test_two_payloads_of_one_sequence_are_a_restart_without_a_question():
    """One life says one thing at one place; no answer is waited for."""
    publisher = Publisher()
    publish(publisher, 3)
    sequencer = started(publisher)
    publisher.restart()
    messages = publish(publisher, 1)

    sequencer.live(*messages[0])

    assert sequencer.take() == [Restart(), *expected(messages)]


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


live_paths = st.lists(
    st.one_of(
        st.just("publish and hear"),
        st.just("publish and lose"),
        st.just("ask"),
        st.just("reconnect"),
        st.integers(0, 30),  # hear the n-th newest again, or for the first time
    ),
    max_size=60,
)


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


def play(path, publisher, sequencer, restarts=frozenset()):
    """Run the steps, settle, and return everything handed on."""
    items = []
    for number, step in enumerate(path):
        if number in restarts:
            publisher.restart()
            sequencer.reconnected()
        if step in {"publish and hear", "publish and lose"}:
            message = publisher.publish()
            if step == "publish and hear":
                sequencer.live(*message)
        elif step == "reconnect":
            sequencer.reconnected()
        elif step == "ask" and sequencer.wants_replay:
            replay(sequencer, publisher)
        elif isinstance(step, int) and publisher.published:
            # what left the ring was given up; hearing of it then would be taken for a restart
            index = max(0, len(publisher.published) - 1 - min(step, publisher.ring - 1))
            sequencer.live(index, publisher.published[index])
        items += sequencer.take()
    sequencer.check()
    replay_while_wanted(sequencer, publisher)
    return items + sequencer.take()


def span_of(item):
    return (item.first, item.last) if isinstance(item, Gap) else (item.sequence, item.sequence)
