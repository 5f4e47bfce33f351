"""What chaos counts as lost: what a dead life said and no store can get any more, and nothing else."""

from __future__ import annotations

import pytest

from tests.load.handed_over import LOOKUP_SECONDS, HandedOver, Heard, Place, Sender
from tierscope.domain.requests import TokenSplit

HELLO = {"t": "hello"}


def answered(name, prompt=100):
    """The records of a request from admission to first token, as an engine names it."""
    admit = {
        "t": "admit",
        "rid": f"{name}-0a1b2c3d",
        "attempt": 0,
        "prompt": prompt,
        "local": 40,
        "external": 0,
    }
    return [admit, {"t": "first", "rid": f"{name}-0a1b2c3d"}]


@pytest.fixture
def clock():
    """A clock that stands still until it is moved."""

    class Clock:
        seconds = 1000.0

        def __call__(self):
            return self.seconds

    return Clock()


@pytest.fixture
def sender(clock):
    """An engine that said a and b in two messages, restarted, and said c."""
    sender = Sender(0, clock)
    sender.read([HELLO])
    sender.read(answered("a"))
    sender.read(answered("b", prompt=70))
    clock.seconds += 10
    sender.read([HELLO, *answered("c")])
    return sender


@pytest.fixture
def store():
    """Names of requests that a store has."""
    return []


@pytest.fixture
def handed_over(sender, store, clock):
    """What of it came into the store."""
    return HandedOver([sender], lambda _since: store, clock)


def test_a_sender_knows_life_and_message_of_each_request(sender):
    """Numbers begin anew with each life; a request has the name that the store gives it."""
    assert [(name, place.life, place.message) for name, place in sender.places] == [
        ("a", 0, 1), ("b", 0, 2), ("c", 1, 0)
    ]  # fmt: skip
    assert sender.splits["b"] == TokenSplit(70, l0=40, computed=30)
    assert sender.life_at(1005.0) == 0
    assert sender.life_at(1010.0) == 1


def test_a_first_token_of_a_life_before_is_no_ones(clock):
    """A restart forgets who was admitted."""
    sender = Sender(0, clock)
    sender.read([HELLO, answered("a")[0]])
    sender.read([HELLO, answered("a")[1]])

    assert sender.places == []


def test_what_came_is_told_once_and_what_did_not_is_waited_for(handed_over, store):
    """A request that is not in the store is not lost because time passes."""
    store += ["a", "b"]

    assert sorted(place.message for place in handed_over.look()) == [1, 2]
    assert handed_over.look() == []
    assert (handed_over.waiting(), handed_over.lost) == (1, {})


def test_a_dead_life_is_given_up_long_after_its_successor_came(handed_over, store, clock):
    """Until then an exporter may still wait for the lookups of what it has read."""
    store += ["a", "c"]
    handed_over.look()
    clock.seconds += LOOKUP_SECONDS - 1
    handed_over.look()
    assert handed_over.lost == {}

    clock.seconds += 1
    handed_over.look()

    assert list(handed_over.lost) == ["b"]
    assert handed_over.waiting() == 0
    assert handed_over.splits(handed_over.lost).prompt == 70


def test_a_living_life_is_never_given_up(handed_over, store, clock):
    """What a living engine said must come, however long it takes."""
    store += ["a", "b"]
    handed_over.look()
    clock.seconds += 10 * LOOKUP_SECONDS
    handed_over.look()

    assert (handed_over.waiting(), handed_over.lost) == (1, {})


@pytest.mark.parametrize(("last_message", "since", "unexplained"), [
    (1, 1000.0, []),
    (2, 1000.0, ["b"]),
    (7, 1010.0, []),  # of the life that followed
])  # fmt: skip
def test_what_the_store_says_it_heard_may_not_be_lost(handed_over, last_message, since, unexplained):
    """Lost is what came after the last message that the store has of a life."""
    handed_over.lost["b"] = Place(0, 0, 2, 1000.0)

    found = handed_over.unexplained([Heard(0, last_message, since)])

    assert [name for name, _ in found] == unexplained
