"""Requests as the detector sees them: tokens by origin, seconds by part, and what could have been reused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierscope.analytics.regression.seen import SeenBlocks
from tierscope.domain.identity import EngineId
from tierscope.domain.trace import FloatArray, Int64Array
from tierscope.domain.window import RequestWindow


class Observations(NamedTuple):
    """Requests in order of time, (n,) each. Tokens and seconds as floats; seconds not told are 0.

    `reusable_here` are tokens that were asked for before, on this engine last; `reusable_elsewhere` on
    another, of which `reusable_foreign` never on this one.
    """

    at_unix_seconds: FloatArray
    l0: FloatArray
    l1: FloatArray
    l2: FloatArray
    external: FloatArray
    computed: FloatArray
    queue_seconds: FloatArray
    load_seconds: FloatArray
    ttft_seconds: FloatArray
    reusable_here: FloatArray
    reusable_elsewhere: FloatArray
    reusable_foreign: FloatArray

    @property
    def prompt(self) -> FloatArray:
        """Tokens of each prompt."""
        return self.l0 + self.l1 + self.l2 + self.external + self.computed

    @property
    def reusable(self) -> FloatArray:
        """Tokens that an endless cache shared by all engines would have had."""
        return self.reusable_here + self.reusable_elsewhere

    def tokens(self) -> FloatArray:
        """The columns TTFT is fitted on: (n, 5)."""
        return cost_columns(self.computed, self.l0, self.l1 + self.external, self.l2)

    def take(self, which: slice | NDArray[np.bool_] | Int64Array) -> Observations:
        """Some of them."""
        return Observations(*(part[which] for part in self))


def cost_columns(computed: FloatArray, l0: FloatArray, l1: FloatArray, l2: FloatArray) -> FloatArray:
    """What TTFT grows with: tokens by origin, and pairs of a computed token and one before it."""
    pairs = computed * (l0 + l1 + l2 + computed / 2)
    return np.column_stack((computed, l0, l1, l2, pairs))


NO_OBSERVATIONS = Observations(*(np.empty(0) for _ in Observations._fields))


def joined(parts: Sequence[Observations]) -> Observations:
    """Several in a row as one."""
    return Observations(*(np.concatenate(columns) for columns in zip(NO_OBSERVATIONS, *parts, strict=True)))


def observe(window: RequestWindow, seen: SeenBlocks, engines: dict[EngineId, int]) -> Observations:
    """A window's requests that told their TTFT; `seen` and `engines` go on from window to window."""
    numbers = [engines.setdefault(engine, len(engines)) for engine in window.engines]
    blocks = np.zeros((window.requests, 3))
    hashes, offsets = window.block_hashes.tolist(), window.offsets.tolist()
    for i, engine in enumerate(window.engine.tolist()):
        blocks[i] = seen.ask(hashes[offsets[i] : offsets[i + 1]], numbers[engine])
    here, elsewhere, foreign = within(window.prompt, *(blocks * window.block_tokens).T)
    told = Observations(
        window.at_unix_seconds,
        window.l0.astype(float),
        window.l1.astype(float),
        window.l2.astype(float),
        window.external.astype(float),
        window.computed.astype(float),
        np.nan_to_num(window.queue_seconds),
        np.nan_to_num(window.load_seconds),
        window.ttft_seconds,
        here,
        elsewhere,
        foreign,
    )
    return told.take(np.isfinite(window.ttft_seconds) & (window.ttft_seconds > 0))


def within(
    prompt: Int64Array, here: FloatArray, elsewhere: FloatArray, foreign: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Reusable tokens but for the last of a prompt, which is always computed."""
    too_many = np.maximum(here + elsewhere - np.maximum(prompt - 1, 0), 0)
    from_elsewhere = np.minimum(too_many, elsewhere)
    return (
        here - (too_many - from_elsewhere),
        elsewhere - from_elsewhere,
        np.maximum(foreign - from_elsewhere, 0),
    )
