"""Who of several collectors does what: shared out by rendezvous hashing over those that live.

Each key (an exporter, an endpoint, the upkeep) goes to the member whose hash with it is highest, so that a
member that comes or goes moves only what it takes or had. Two that disagree for a moment do the same work
twice and store it once: a feed's position is committed with its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

from collectors.complaints import Complaints
from collectors.following import FeedFollower, Receiver
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.settings import FeedSource
from tierscope.domain.worker import Worker
from tierscope.registry.types import Sample

log = logging.getLogger(__name__)

RENEWALS_A_LEASE = 3
LOOKS_A_LEASE = 15

Mine = Callable[[str], bool]


class Leases(Protocol):
    """What `tierscope.storage.lake.leases` has of a lake."""

    member: str

    def renew(self) -> tuple[str, ...]:
        """Live on; return all that do."""
        ...

    def leave(self) -> None:
        """Live no longer."""
        ...


def everything(key: str) -> bool:  # noqa: ARG001  one collector alone does everything
    """Whether a key is this collector's, where it is the only one."""
    return True


def winner(key: str, members: Iterable[str]) -> str | None:
    """The member that a key goes to; None without any."""
    return max(members, key=lambda member: _score(member, key), default=None)


def _score(member: str, key: str) -> tuple[bytes, str]:
    return blake2b(f"{member}\0{key}".encode(), digest_size=8).digest(), member


class Sharing(Worker):
    """Keeps this collector's lease, and knows from who has one what is its own to do."""

    def __init__(self, leases: Leases, complaints: Complaints, *, lease_seconds: float) -> None:
        super().__init__("sharing")
        self._leases = leases
        self._complaints = complaints
        self._pause_seconds = lease_seconds / RENEWALS_A_LEASE
        self._members: tuple[str, ...] = ()
        self.renew()

    def mine(self, key: str) -> bool:
        """Whether a key is this collector's now."""
        return winner(key, self._members) == self._leases.member

    def renew(self) -> None:
        """Renew the lease once; while that fails all stays as it was."""
        try:
            members = self._leases.renew()
        except StoreUnusable as error:
            self._complaints.say("lease", error)
            return
        self._complaints.over("lease")
        if members != self._members:
            log.info("collectors of the lake: %s", ", ".join(members))
        self._members = members

    def leave(self) -> None:
        """Give the lease back, so that the others need not wait for its end."""
        try:
            self._leases.leave()
        except StoreUnusable as error:
            log.info("the lease is left to end by itself: %s", error.what)

    def samples(self) -> Iterator[Sample]:
        """Yield nothing: what is this collector's shows in the series of its feeds and its advice."""
        return iter(())

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_seconds):
            self.renew()


class SharedFeeds(FeedFollower):
    """Receives those of the settings' feeds that are this collector's, for as long as they are."""

    def __init__(
        self,
        feeds: Sequence[FeedSource],
        mine: Mine,
        receive: Callable[[FeedSource], Receiver],
        complaints: Complaints,
        *,
        lease_seconds: float,
    ) -> None:
        super().__init__("shared-feeds", receive, complaints, mine)
        self._feeds = feeds
        self._look_seconds = lease_seconds / LOOKS_A_LEASE

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._follow(self._feeds)
            self._stopping.wait(self._look_seconds)
