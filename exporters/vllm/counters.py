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
            return None
        if growth.restarted:
            self._waiting.clear()
        self._waiting.append(_by_origin(growth.by, _Kind.FOUND))
        tokens = self._split(_by_origin(growth.by, _Kind.SERVED), reading.vague)
        instead = reading.lookups_lie and tokens.prompt
        return EngineGrowth(
            tokens=tokens,
            queries=tokens.prompt if instead else growth.by.get((_Kind.LOOKUPS, "queries")),
            hits=tokens.l0 if instead else growth.by.get((_Kind.LOOKUPS, "hits")),
            restarted=growth.restarted,
        )

    def _split(self, served: Mapping[Origin, int], vague: Origin) -> TokenSplit:
        parts = dict(served)
        claimed = self._claim(parts.pop(vague, 0), vague)
        for origin, tokens in claimed.items():
            parts[origin] = parts.get(origin, 0) + tokens
        prompt = sum(parts.values())
        return TokenSplit(prompt, **{origin.value: n for origin, n in parts.items()}) if prompt else NO_TOKENS

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
