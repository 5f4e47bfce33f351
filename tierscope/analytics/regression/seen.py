"""What could have been served: how much of each prompt was asked for before, where, and how long ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tierscope.analytics.regression.recency import Recencies, Section

DEFAULT_MOST_BLOCKS = 4_000_000
"""Blocks remembered of all models, on all engines together; and as many again of each engine's own."""


class Reusable(NamedTuple):
    """Leading blocks of a chain that were asked for before.

    `fleet` tells how long ago anywhere; `own` how long ago on this engine, which never was asked for the last
    `foreign` of them.
    """

    fleet: list[Section]
    own: list[Section]
    foreign: int


class SeenBlocks:
    """Blocks that requests asked for, anywhere and on each engine, by model: none finds another's.

    Engines are small numbers. What no request asked for longest is forgotten first, whosever it is, so models
    and engines that are gone leave nothing behind.
    """

    def __init__(self, most_blocks: int = DEFAULT_MOST_BLOCKS) -> None:
        self._fleet, self._own = Recencies(most_blocks), Recencies(most_blocks)

    def __len__(self) -> int:
        return len(self._fleet) + len(self._own)

    def ask(self, model: str, chain: Sequence[int], engine: int, most: int | None = None) -> Reusable:
        """What was seen of the first `most` blocks of the chain; then all of it is seen, on this engine."""
        hittable = chain[:most]
        here, anywhere = self._own.sections((model, engine), hittable), self._fleet.sections(model, hittable)
        foreign = sum(part.blocks for part in anywhere) - sum(part.blocks for part in here)
        self._own.touch((model, engine), chain)
        self._fleet.touch(model, chain)
        return Reusable(anywhere, here, max(foreign, 0))
