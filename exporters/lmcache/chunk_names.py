"""Whether the cache servers of this node name the chunks of equal prompts equally.

A chunk's name is a hash of its tokens and of those before it. With a hash that depends on a seed each server
names differently, stores into the shared pool, and never finds what another stored. Engines tell equal
prompts apart from others: their block hash names the same tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from exporters.lmcache.suspicion import ServerSuspect
from exporters.oddities import Finding
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity

MOST_PREFIXES = 10_000
"""First chunks of prompts that are remembered, the oldest forgotten first."""

LAST_COMPARED = 100
"""Common prefixes of two servers that they are judged by."""


@dataclass(slots=True)
class ChunkNames:
    """What each server calls the first chunk of a prompt. Used by one thread."""

    _names: dict[int, dict[str, int]] = field(default_factory=dict)
    _compared: dict[tuple[str, str], deque[bool]] = field(default_factory=dict)
    """Whether two servers, by name, agreed, for each prefix that both were asked for."""

    def told(self, server: str, prefix: int, chunk: int) -> None:
        """A server named the first chunk of a prompt `chunk`; an engine names the same tokens `prefix`."""
        names = self._names.get(prefix)
        if names is None:
            if len(self._names) >= MOST_PREFIXES:
                del self._names[next(iter(self._names))]
            names = self._names[prefix] = {}
        if names.get(server) == chunk:
            return
        names[server] = chunk
        for other, name in names.items():
            if other != server:
                pair = (min(server, other), max(server, other))
                compared = self._compared.setdefault(pair, deque(maxlen=LAST_COMPARED))
                compared.append(name == chunk)

    def findings(self, server: str) -> Iterator[Finding]:
        """Yield one finding where others agree with a server on no prefix at all."""
        strangers = {
            next(name for name in pair if name != server): len(compared)
            for pair, compared in self._compared.items()
            if server in pair and not any(compared)
        }
        if strangers:
            yield _mismatch(server, strangers)


def _mismatch(server: str, strangers: dict[str, int]) -> Finding:
    pairs = " and ".join(
        f"{server} and {other} ({count} prompts)" for other, count in sorted(strangers.items())
    )
    error = BadInput(
        f"the same prompts have other chunk names in each of two LMCache servers: {pairs}; what one stores "
        "in the shared pool the other never finds",
        where=server,
        fix="give all servers the same --hash-algorithm, best blake3, the default, which needs no seed; "
        "builtin needs one PYTHONHASHSEED everywhere, and before Python 3.12 even that is not enough",
    )
    return Finding(ServerSuspect.HASH_SEED, Severity.CRITICAL, error)
