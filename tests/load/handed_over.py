"""What each life of an engine said, request by request, and what of it came into a store.

A killed engine takes with it what nobody had read, or what its reader had not handed on before it was killed
too: no one is left who could say how much that was, but the one who made it. Here it is said, so that what a
run sent is what is stored and what is lost in this way, to the token, and nothing else.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.testbed.wire.records import Record
from tierscope.testbed.wire.tally import Tally

LOOKUP_SECONDS = 35.0
"""Longer than an exporter waits for the lookup of an admission: after that it has told what it has."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request's first token was told: which life of which engine, and the number of its message."""

    engine: int
    life: int
    message: int
    at_unix_seconds: float


@dataclass(frozen=True, slots=True)
class Heard:
    """What a store says of an engine's records: messages up to this one came, in an interval begun then."""

    engine: int
    last_message: int
    since_unix_seconds: float


class Sender(Tally):
    """The tally of one replica that also remembers each request's place."""

    def __init__(self, engine: int, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.engine = engine
        self.lives: list[float] = []
        """When each began."""
        self.places: list[tuple[str, Place]] = []
        self.splits: dict[str, TokenSplit] = {}
        self._message = -1
        self._admissions: set[object] = set()
        self._clock = clock

    def read(self, records: Iterable[Record]) -> None:
        """Take in a message; one that says hello is the first of a life."""
        records = list(records)
        if any(record["t"] == "hello" for record in records):
            self.lives.append(self._clock())
            self._message = -1
            self._admissions.clear()
        self._message += 1
        place = Place(self.engine, len(self.lives) - 1, self._message, self._clock())
        for record in records:
            if record["t"] == "admit" and record["attempt"] == 0:
                self._admissions.add(record["rid"])
            elif record["t"] == "first" and record["rid"] in self._admissions:
                self._admissions.remove(record["rid"])
                self.places.append((_api_id(record["rid"]), place))
        super().read(records)

    def settled(self, request_id: str, tokens: TokenSplit) -> None:
        """Keep each request's tokens."""
        self.splits[_api_id(request_id)] = tokens

    def life_at(self, at_unix_seconds: float) -> int:
        """Which life it was in."""
        return max(sum(began <= at_unix_seconds for began in self.lives) - 1, 0)


def _api_id(request_id: object) -> str:
    """The id without what the engine adds to it, as the store has it."""
    return str(request_id).rpartition("-")[0]


class HandedOver:
    """Follows what was sent into the store; what a dead life sent and cannot come any more is `lost`.

    `stored` tells the requests that a store has as served, of those admitted after a time.
    """

    def __init__(
        self,
        senders: Sequence[Sender],
        stored: Callable[[float], Collection[str]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lost: dict[str, Place] = {}
        self._senders = senders
        self._stored = stored
        self._monotonic = monotonic
        self._open: dict[str, Place] = {}
        self._taken = [0] * len(senders)
        self._reached: dict[tuple[int, int], float] = {}
        """Since when the store has something of a life of an engine."""

    def look(self) -> list[Place]:
        """See what has come into the store since this was last asked."""
        for index, sender in enumerate(self._senders):
            found = sender.places[self._taken[index] :]
            self._taken[index] += len(found)
            self._open |= found
        if not self._open:
            return []
        # Long before the oldest one's first token: it may have waited to be admitted.
        oldest = min(place.at_unix_seconds for place in self._open.values()) - 600.0
        came = [self._open.pop(name) for name in self._open.keys() & set(self._stored(oldest))]
        for place in came:
            self._reached.setdefault((place.engine, place.life), self._monotonic())
        self._give_up()
        return came

    def waiting(self, until_unix_seconds: float = float("inf")) -> int:
        """How many requests that were told by then are yet to come."""
        return sum(place.at_unix_seconds <= until_unix_seconds for place in self._open.values())

    def splits(self, requests: Iterable[str]) -> TokenSplit:
        """What these requests add up to."""
        made = {name: tokens for sender in self._senders for name, tokens in sender.splits.copy().items()}
        return sum((made[name] for name in requests), NO_TOKENS)

    def unexplained(self, heard: Iterable[Heard]) -> list[tuple[str, Place]]:
        """What is lost though the store says that its message came: nothing, or more than engines lost it."""
        until: dict[tuple[int, int], int] = defaultdict(lambda: -1)
        for one in heard:
            life = one.engine, self._senders[one.engine].life_at(one.since_unix_seconds)
            until[life] = max(until[life], one.last_message)
        return [
            (name, place)
            for name, place in self.lost.items()
            if place.message <= until[place.engine, place.life]
        ]

    def _give_up(self) -> None:
        """An exporter tells lives in their order: of those before one that has long come, nothing comes."""
        long_ago = self._monotonic() - LOOKUP_SECONDS
        latest: dict[int, int] = {}
        for (engine, life), since in self._reached.items():
            if since <= long_ago:
                latest[engine] = max(life, latest.get(engine, 0))
        gone = {name: place for name, place in self._open.items() if place.life < latest.get(place.engine, 0)}
        self.lost |= gone
        for name in gone:
            del self._open[name]
