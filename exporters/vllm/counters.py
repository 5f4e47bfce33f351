"""Prompt tokens by origin between two readings of an engine's own counters.

The engine says at a request's first token how many tokens came through its connector, and at
admission which tier they were found in. The second is always ahead of the first: by the requests in between,
and for ever by those that ended before their first token. So what was found at admission waits here,
newest on top, until prompts claim it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from exporters.counters import Counters
from exporters.vllm.parse import PromptCounters
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.tiers import Origin

MOST_WAITING = 64
"""Readings whose found tokens may wait for their prompts; what is older belonged to requests that ended."""


@dataclass(frozen=True, slots=True)
class EngineGrowth:
    """What an engine's counters grew by. `queries` and `hits` are lookups in L0; None where not counted.

    Where the engine's own counters of lookups lie, the prompts that reached their first token stand in.
    """

    tokens: TokenSplit
    queries: int | None
    hits: int | None
    restarted: bool

    @property
    def lookups(self) -> tuple[int, int] | None:
        """Tokens found and not found in L0; None where they are not counted."""
        if self.queries is None or self.hits is None:
            return None
        return self.hits, max(0, self.queries - self.hits)


class _Kind(Enum):
    SERVED = "served"
    FOUND = "found"
    LOOKUPS = "lookups"


@dataclass(slots=True)
class EngineCounters:
    """Follows the counters of one model on one engine from reading to reading.

    `from_zero` says that they began after we did, so that the first reading counts too.
    """

    from_zero: bool = False
    total: TokenSplit = NO_TOKENS
    """What was counted since the engine's counters began, as of the last reading."""
    lookups: tuple[int, int] | None = None
    """Tokens found and not found in L0 since then; None where they are not counted."""
    _counters: Counters[tuple[_Kind, str]] = field(init=False)
    _waiting: deque[dict[Origin, int]] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))

    def __post_init__(self) -> None:
        self._counters = Counters(from_zero=self.from_zero)

    def advance(self, reading: PromptCounters) -> EngineGrowth | None:
        """Take a reading and return the growth since the last one; None for the first one."""
        values = {(_Kind.SERVED, origin.value): tokens for origin, tokens in reading.at_first_token.items()}
        values |= {(_Kind.FOUND, origin.value): tokens for origin, tokens in reading.at_admission.items()}
        lookups = {"queries": reading.queries, "hits": reading.hits}
        values |= {(_Kind.LOOKUPS, name): n for name, n in lookups.items() if n is not None}
        growth = self._counters.advance(values, reading.created_unix_seconds)
        if growth is None:
            self._begin(reading)
            return None
        if growth.restarted:
            self._waiting.clear()
            self.total, self.lookups = NO_TOKENS, None
        self._waiting.append(_by_origin(growth.by, _Kind.FOUND))
        tokens = self._split(_by_origin(growth.by, _Kind.SERVED), reading.vague)
        instead = reading.lookups_lie and tokens.prompt
        grown = EngineGrowth(
            tokens=tokens,
            queries=tokens.prompt if instead else growth.by.get((_Kind.LOOKUPS, "queries")),
            hits=tokens.l0 if instead else growth.by.get((_Kind.LOOKUPS, "hits")),
            restarted=growth.restarted,
        )
        self.total += tokens
        if grown.lookups is not None:
            found, missed = self.lookups or (0, 0)
            self.lookups = found + grown.lookups[0], missed + grown.lookups[1]
        return grown

    def _begin(self, reading: PromptCounters) -> None:
        """Take what was counted before we came."""
        parts = dict(reading.at_first_token)
        vague = parts.pop(reading.vague, 0)
        known = _proportional(reading.at_admission, vague)
        known[reading.vague] = known.get(reading.vague, 0) + vague - sum(known.values())
        self.total = _split_of({origin: parts.get(origin, 0) + known.get(origin, 0) for origin in Origin})
        if reading.lookups_lie:
            self.lookups = self.total.l0, self.total.prompt - self.total.l0
        elif reading.queries is not None and reading.hits is not None:
            self.lookups = reading.hits, max(0, reading.queries - reading.hits)

    def _split(self, served: Mapping[Origin, int], vague: Origin) -> TokenSplit:
        parts = dict(served)
        claimed = self._claim(parts.pop(vague, 0), vague)
        for origin, tokens in claimed.items():
            parts[origin] = parts.get(origin, 0) + tokens
        return _split_of(parts)

    def _claim(self, tokens: int, vague: Origin) -> dict[Origin, int]:
        """Take tokens from what was found, the newest first; what nothing accounts for stays vague."""
        claimed: dict[Origin, int] = {}
        for found in reversed(self._waiting):
            for origin, taken in _proportional(found, tokens).items():
                claimed[origin] = claimed.get(origin, 0) + taken
                found[origin] -= taken
                tokens -= taken
        claimed[vague] = claimed.get(vague, 0) + tokens
        return claimed


def _split_of(parts: Mapping[Origin, int]) -> TokenSplit:
    return TokenSplit(sum(parts.values()), **{origin.value: tokens for origin, tokens in parts.items()})


def _by_origin(growth: Mapping[tuple[_Kind, str], int], kind: _Kind) -> dict[Origin, int]:
    return {Origin(name): tokens for (found, name), tokens in growth.items() if found is kind}


def _proportional(found: Mapping[Origin, int], tokens: int) -> dict[Origin, int]:
    """Take up to `tokens` from the parts in proportion to their sizes, exactly as many as there are."""
    total = sum(found.values())
    tokens = min(tokens, total)
    taken: dict[Origin, int] = {}
    seen = given = 0
    for origin, size in found.items():
        seen += size
        taken[origin] = tokens * seen // total - given if total else 0
        given += taken[origin]
    return taken
