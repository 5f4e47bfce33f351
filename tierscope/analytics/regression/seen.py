"""What could have been served: how much of each prompt was asked for before, where, and how long ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tierscope.analytics.regression.recency import Recencies, Section

DEFAULT_MOST_BLOCKS = 4_000_000
"""Blocks remembered of all endpoints and models, wherever asked for; and as many of each engine's own."""


class Reusable(NamedTuple):
    """Leading blocks of a chain that were asked for before.

    `fleet` tells how long ago anywhere; `own` how long ago on this engine, which never was asked for the last
    `foreign` of them.
    """

    fleet: list[Section]
    own: list[Section]
    foreign: int


class Remembered:
    """What several `SeenBlocks` remember, under one bound: what nobody asked for longest is forgotten first.

    A million blocks take some 110 MB.
    """

    def __init__(self, most_blocks: int = DEFAULT_MOST_BLOCKS) -> None:
        self.fleet, self.own = Recencies(most_blocks), Recencies(most_blocks)

    def __len__(self) -> int:
        return len(self.fleet) + len(self.own)


class SeenBlocks:
    """Blocks that an endpoint's requests asked for, anywhere and on each engine, by model.

    None finds another's, though they may share what is `remembered`. Engines are small numbers. Whosever
    blocks are forgotten, those that are gone leave nothing behind.
    """

    def __init__(self, remembered: Remembered | None = None) -> None:
        self._remembered = Remembered() if remembered is None else remembered
        self._owner = object()

    def ask(self, model: str, chain: Sequence[int], engine: int, most: int | None = None) -> Reusable:
        """What was seen of the first `most` blocks of the chain; then all of it is seen, on this engine."""
        fleet, own = self._remembered.fleet, self._remembered.own
        anybody, here = (self._owner, model), (self._owner, model, engine)
        hittable = chain[:most]
        on_this, anywhere = own.sections(here, hittable), fleet.sections(anybody, hittable)
        foreign = sum(part.blocks for part in anywhere) - sum(part.blocks for part in on_this)
        own.touch(here, chain)
        fleet.touch(anybody, chain)
        return Reusable(anywhere, on_this, max(foreign, 0))
