"""Feeds that come and go while the collector runs: a receiver for each, for as long as it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from collectors.complaints import Complaints
from tierscope.domain.errors import TierscopeError
from tierscope.domain.identity import SourceId
from tierscope.domain.settings import FeedSource
from tierscope.domain.worker import Worker
from tierscope.registry.types import Sample


class Receiver(Protocol):
    """A feed's receiver."""

    source: SourceId

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """Ask it to end."""
        ...

    def join(self) -> None:
        """Wait until it has ended."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        ...

    def samples(self) -> Iterator[Sample]:
        """Yield its series."""
        ...


class FeedFollower(Worker):
    """Starts a receiver for each feed that is wanted and this collector's, and ends it when it is not.

    One that cannot be started (its address, a store that does not answer) is tried again at the next look.
    """

    def __init__(
        self,
        name: str,
        receive: Callable[[FeedSource], Receiver],
        complaints: Complaints,
        mine: Callable[[str], bool],
    ) -> None:
        super().__init__(name)
        self._receive = receive
        self._complaints = complaints
        self._mine = mine
        self._open: Mapping[str, tuple[FeedSource, Receiver]] = {}

    def stop(self) -> None:
        """Ask it to end, and its receivers with it."""
        super().stop()
        for _, receiver in self._open.values():
            receiver.stop()

    def join(self) -> None:
        """Wait until it and its receivers have ended."""
        super().join()
        for _, receiver in self._open.values():
            receiver.stop()
            receiver.join()

    @property
    def alive(self) -> bool:
        """Whether its thread and those of its receivers run."""
        return super().alive and all(receiver.alive for _, receiver in self._open.values())

    def samples(self) -> Iterator[Sample]:
        """Yield the series of every feed that is received."""
        for _, receiver in self._open.values():
            yield from receiver.samples()

    def _follow(self, feeds: Iterable[FeedSource]) -> None:
        """Receive these, as far as they are this collector's, and no others."""
        wanted = {feed.name: feed for feed in feeds if self._mine(feed.name)}
        for name, (feed, _) in list(self._open.items()):
            if wanted.get(name) != feed:
                self._leave(name)
        for name, feed in wanted.items():
            if name not in self._open and not self._stopping.is_set():
                self._take(name, feed)

    def _take(self, name: str, feed: FeedSource) -> None:
        try:
            receiver = self._receive(feed)
        except TierscopeError as error:
            self._complaints.say(f"feed {name}", error)
            return
        self._complaints.over(f"feed {name}")
        receiver.start()
        self._open = {**self._open, name: (feed, receiver)}

    def _leave(self, name: str) -> None:
        _, receiver = self._open[name]
        self._open = {key: value for key, value in self._open.items() if key != name}
        receiver.stop()
        receiver.join()
        self._complaints.over(str(receiver.source))
