"""Which server's counters a page has, where several answer at one address in turn.

A page of several API servers without counters in common, or of several pods behind one address, is now one
server's and now another's. Read as one, each change would look like a restart, after which all counts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporters.vllm.counters import EngineCounters
from exporters.vllm.offloading import OffloadCounters
from exporters.vllm.parse import PromptCounters

MOST_SERVERS = 64
"""Servers of one engine's counters that are told apart, the one read longest ago forgotten first."""


@dataclass(slots=True)
class Server:
    """What is known of the counters of one server."""

    counters: EngineCounters
    began_unix_seconds: float | None = None
    """Its own mark of their beginning, None where it gives none."""
    values: Mapping[object, int] = field(default_factory=dict)
    """As it last told them."""
    offload: OffloadCounters | None = None
    is_other: bool = False
    """Whether it had begun before another one was last read."""


@dataclass(slots=True)
class Servers:
    """The servers that told the counters of one model on one engine. The clocks are those of one node.

    By their marks: one that began after the last reading has taken the place of the one that told it; one
    that had begun before is another. Where no mark is given, none is taken for a restart: a reading belongs
    to the server whose counters it continues with the least growth, and one that continues none is another's,
    of which what it had counted before is nobody's.
    """

    several: bool = False
    """Whether one was read again after another: they answer in turn."""
    _known: list[Server] = field(default_factory=list)
    """The one that was read last at the end."""

    def of(self, reading: PromptCounters, *, from_zero: bool, read_before_unix_seconds: float) -> Server:
        """Return whose counters a reading has. `from_zero`: all that a first server's say is of our time."""
        mark = reading.created_unix_seconds
        values = _values(reading)
        server = self._find(mark, values, read_before_unix_seconds)
        if server is None:
            server = Server(
                EngineCounters(from_zero=from_zero and not self._known), is_other=bool(self._known)
            )
        elif server is not self._known[-1]:
            self.several = True
            self._known = [one for one in self._known if one is not server]
        else:
            self._known.pop()
        self._known.append(server)
        del self._known[:-MOST_SERVERS]
        server.began_unix_seconds = server.began_unix_seconds if mark is None else mark
        server.values = {**server.values, **values}
        return server

    def _find(
        self, mark: float | None, values: Mapping[object, int], read_before_unix_seconds: float
    ) -> Server | None:
        if not self._known:
            return None
        if mark is None:
            return self._continued(values)
        for server in self._known:
            if server.began_unix_seconds in (mark, None):
                return server
        return self._known[-1] if mark >= read_before_unix_seconds else None

    def _continued(self, values: Mapping[object, int]) -> Server | None:
        """Whose counters these continue, with the least growth."""
        growths = [
            (sum(values.values()) - sum(server.values.values()), place)
            for place, server in enumerate(self._known)
            if all(value >= server.values.get(name, 0) for name, value in values.items())
        ]
        return self._known[min(growths)[1]] if growths else None


def _values(reading: PromptCounters) -> dict[object, int]:
    """All that a page counts of prompts."""
    found: dict[object, int] = {("first token", origin): n for origin, n in reading.at_first_token.items()}
    found |= {("admission", origin): n for origin, n in reading.at_admission.items()}
    lookups = {"queries": reading.queries, "hits": reading.hits}
    return found | {name: n for name, n in lookups.items() if n is not None}
