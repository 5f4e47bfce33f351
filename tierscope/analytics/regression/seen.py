"""What could have been served: how much of each prompt was asked for before, where, and how long ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tierscope.analytics.regression.recency import Recency, Section

DEFAULT_MOST_BLOCKS = 4_000_000
"""Blocks remembered of all engines together; and as many again, shared by the engines, of each one's own."""


class Reusable(NamedTuple):
    """Leading blocks of a chain that were asked for before.

    `fleet` tells how long ago anywhere; `own` how long ago on this engine, which never was asked for the last
    `foreign` of them.
    """

    fleet: list[Section]
    own: list[Section]
    foreign: int


class SeenBlocks:
    """Blocks that requests asked for, anywhere and on each engine. Engines are small numbers."""

    def __init__(self, most_blocks: int = DEFAULT_MOST_BLOCKS) -> None:
        self._most_blocks = most_blocks
        self._fleet = Recency(most_blocks)
        self._of_engine: dict[int, Recency] = {}

    def ask(self, chain: Sequence[int], engine: int, most: int | None = None) -> Reusable:
        """What was seen of the first `most` blocks of the chain; then all of it is seen, on this engine."""
        own = self._of_engine[engine] if engine in self._of_engine else self._begin(engine)
        hittable = chain[:most]
        here, anywhere = own.sections(hittable), self._fleet.sections(hittable)
        foreign = sum(part.blocks for part in anywhere) - sum(part.blocks for part in here)
        own.touch(chain)
        self._fleet.touch(chain)
        return Reusable(anywhere, here, max(foreign, 0))

    def _begin(self, engine: int) -> Recency:
        self._of_engine[engine] = Recency(self._most_blocks)
        share = max(1, self._most_blocks // len(self._of_engine))
        for recency in self._of_engine.values():
            recency.most_blocks = share
        return self._of_engine[engine]
