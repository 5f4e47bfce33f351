"""The engines behind an endpoint: the numbers their blocks are remembered by, and which are gone."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np

from tierscope.domain.identity import EngineId
from tierscope.domain.window import RequestWindow


class _Engine(NamedTuple):
    number: int
    asked_unix_seconds: float
    """When it was asked last."""


class Engines:
    """Those that were asked lately, each by a number that no other ever had."""

    def __init__(self) -> None:
        self._known: dict[EngineId, _Engine] = {}
        self._numbers = count()

    def __contains__(self, engine: EngineId) -> bool:
        return engine in self._known

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, window: RequestWindow) -> list[int]:
        """Those of a window's engines; one that is not known gets its own."""
        asked = np.full(len(window.engines), -np.inf)
        np.maximum.at(asked, window.engine, window.at_unix_seconds)
        for engine, at in zip(window.engines, asked.tolist(), strict=True):
            known = self._known.get(engine) or _Engine(next(self._numbers), at)
            self._known[engine] = known._replace(asked_unix_seconds=max(known.asked_unix_seconds, at))
        return [self._known[engine].number for engine in window.engines]

    def forget_silent(self, silent_seconds: float) -> list[EngineId]:
        """Forget those that were not asked for so long, while others were; returns them.

        One that returns is new: what it was asked for before is not found.
        """
        newest = max((one.asked_unix_seconds for one in self._known.values()), default=0.0)
        gone = [
            engine for engine, one in self._known.items() if one.asked_unix_seconds < newest - silent_seconds
        ]
        for engine in gone:
            del self._known[engine]
        return gone
