"""A publisher as a sequencer sees it, and ways of playing a live path, for tests without sockets."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from tierscope.feed.messages import Gap, Message
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
    """Publish so many."""
    return [publisher.publish() for _ in range(count)]


def expected(messages: list[tuple[int, bytes]]) -> list[Message]:
    """Messages as they are handed on."""
    return [Message(sequence, payload) for sequence, payload in messages]


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
    """First and last sequence of what was handed on."""
    return (item.first, item.last) if isinstance(item, Gap) else (item.sequence, item.sequence)
