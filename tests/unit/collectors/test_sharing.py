"""Several collectors share the work out without talking to each other."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from collectors.complaints import Complaints
from collectors.sharing import SharedFeeds, Sharing, winner
from tests.exporting import await_true
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.settings import FeedSource

MEMBERS = tuple(f"collector-{n}" for n in range(5))
KEYS = [f"node-{n}" for n in range(400)]


class FakeLeases:
    """Leases in memory; `members` None: PostgreSQL is away."""

    def __init__(self, member: str, *others: str) -> None:
        self.member = member
        self.members: tuple[str, ...] | None = tuple(sorted((member, *others)))

    def renew(self) -> tuple[str, ...]:
        if self.members is None:
            raise StoreUnusable("it does not answer", where="lake", fix="start it")
        return self.members

    def leave(self) -> None:
        self.renew()


class FakeReceiver:
    def __init__(self, feed: FeedSource) -> None:
        self.source = feed.name
        self.alive = True
        self.ended = False

    def start(self):
        pass

    def stop(self):
        self.ended = True

    def join(self):
        pass

    def samples(self):
        yield SimpleNamespace(name=self.source)


def sharing(leases):
    return Sharing(leases, Complaints(lambda: 0.0), lease_seconds=0.03)


def test_every_key_is_one_members_and_no_member_has_too_many():
    """All agree on who has what, whatever order they know the members in."""
    given = [winner(key, MEMBERS) for key in KEYS]

    assert given == [winner(key, reversed(MEMBERS)) for key in KEYS]
    counts = Counter(given)
    assert set(counts) == set(MEMBERS)
    assert max(counts.values()) < 2 * len(KEYS) / len(MEMBERS)


def test_who_goes_moves_only_what_it_had():
    left = MEMBERS[1:]

    moved = [key for key in KEYS if winner(key, MEMBERS) != winner(key, left)]

    assert moved == [key for key in KEYS if winner(key, MEMBERS) == MEMBERS[0]]


def test_while_postgresql_is_away_all_stays_as_it_was():
    """Who does not know better goes on with what it had; the store decides what is kept of it."""
    leases = FakeLeases("a", "b")
    shared = sharing(leases)
    mine = [shared.mine(key) for key in KEYS]

    leases.members = None
    shared.renew()
    shared.leave()

    assert [shared.mine(key) for key in KEYS] == mine
    assert 0 < sum(mine) < len(KEYS)


def test_the_feeds_of_who_is_gone_are_taken_over_and_given_back():
    """A receiver runs for each feed that is this collector's, and for no other."""
    leases = FakeLeases("a", "b")
    shared = sharing(leases)
    open_: dict[str, FakeReceiver] = {}

    def receive(feed):
        assert feed.name not in open_ or open_[feed.name].ended
        if feed.name == KEYS[3]:
            raise StoreUnusable("its address is none", where=feed.name, fix="correct it")
        open_[feed.name] = FakeReceiver(feed)
        return open_[feed.name]

    feeds = [FeedSource(name=key, endpoint="e", replay_endpoint="r") for key in KEYS[:40]]
    follower = SharedFeeds(feeds, shared.mine, receive, Complaints(lambda: 0.0), lease_seconds=0.03)

    def received():
        return {name for name, receiver in open_.items() if not receiver.ended}

    def due(*members):
        return {key for key in KEYS[:40] if winner(key, members) == "a"} - {KEYS[3]}

    for worker in (shared, follower):
        worker.start()
    try:
        await_true(lambda: received() == due("a", "b"), "it has its share")
        leases.members = ("a",)
        await_true(lambda: received() == due("a"), "it has all")
        leases.members = ("a", "b", "c")
        await_true(lambda: received() == due("a", "b", "c"), "it has given the others theirs")
        assert {sample.name for sample in follower.samples()} == due("a", "b", "c")
        assert follower.alive
    finally:
        for worker in (shared, follower):
            worker.stop()
            worker.join()
    assert received() == set()


@pytest.mark.parametrize("members", [(), ("b",)])
def test_who_has_no_lease_does_nothing(members):
    """A collector that others think dead leaves its work to them until it has said that it lives."""
    leases = FakeLeases("a")
    leases.members = members

    assert not any(sharing(leases).mine(key) for key in KEYS)
