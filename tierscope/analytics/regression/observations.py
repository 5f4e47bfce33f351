"""Requests as the detector sees them: tokens by origin, seconds by part, and what could have been reused."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierscope.analytics.regression.recency import Section
from tierscope.analytics.regression.seen import Reusable, SeenBlocks
from tierscope.domain.trace import FloatArray, Int64Array
from tierscope.domain.window import RequestWindow

EDGES_TOKENS = [2 ** (10 + step / 2) for step in range(36)]
"""Borders of distances in tokens, half an octave apart: from a prompt to 6 TiB at 32 KiB a token."""
DISTANCES = len(EDGES_TOKENS) + 1


class Observations(NamedTuple):
    """Requests in order of time, (n,) each but for the last two. Tokens and seconds; what is not told is 0.

    What could be reused, in tokens by distance (tokens asked for since): `fleet` (n, DISTANCES) since anyone
    asked, `own` (n, DISTANCES + 1) since this engine was asked; its last column is what only others were.
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
    fleet: FloatArray
    own: FloatArray

    @property
    def prompt(self) -> FloatArray:
        """Tokens of each prompt."""
        return self.l0 + self.l1 + self.l2 + self.external + self.computed

    @property
    def reusable(self) -> FloatArray:
        """Tokens that an endless cache shared by all engines would have had."""
        found: FloatArray = self.own.sum(axis=1)
        return found

    @property
    def foreign(self) -> FloatArray:
        """Those of them that only other engines were asked for."""
        return self.own[:, -1]

    def tokens(self) -> FloatArray:
        """The columns TTFT is fitted on: (n, 5)."""
        return cost_columns(self.computed, self.l0, self.l1 + self.external, self.l2)

    def served(self) -> FloatArray:
        """Tokens that L0, L1 and L2 served: (n, 3). What came from an unknown tier is counted with L1."""
        return np.column_stack((self.l0, self.l1 + self.external, self.l2))

    def take(self, which: slice | NDArray[np.bool_] | Int64Array) -> Observations:
        """Some of them."""
        return Observations(*(part[which] for part in self))


def cost_columns(computed: FloatArray, l0: FloatArray, l1: FloatArray, l2: FloatArray) -> FloatArray:
    """What TTFT grows with: tokens by origin, and pairs of a computed token and one before it."""
    pairs = computed * (l0 + l1 + l2 + computed / 2)
    return np.column_stack((computed, l0, l1, l2, pairs))


_NONE = np.empty(0)
NO_OBSERVATIONS = Observations(
    _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE,
    fleet=np.empty((0, DISTANCES)), own=np.empty((0, DISTANCES + 1)),
)  # fmt: skip


def joined(parts: Sequence[Observations]) -> Observations:
    """Several in a row as one."""
    return Observations(*(np.concatenate(columns) for columns in zip(NO_OBSERVATIONS, *parts, strict=True)))


def observe(
    window: RequestWindow, seen: SeenBlocks, engines: Sequence[int]
) -> tuple[Observations, NDArray[np.bool_]]:
    """A window's requests that told their TTFT, and which of all those are: (n,).

    `engines` are the numbers of the window's; they and `seen` go on from window to window.
    """
    hashes, offsets = window.block_hashes.tolist(), window.offsets.tolist()
    size, reused = window.block_tokens, []
    rows = zip(window.engine.tolist(), window.model.tolist(), window.prompt.tolist(), strict=True)
    for i, (engine, model, prompt) in enumerate(rows):
        chain = hashes[offsets[i] : offsets[i + 1]]
        asked = seen.ask(window.models[model], chain, engines[engine], most_reusable(prompt, size))
        reused.append(by_distance(asked, size))
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
        np.array([fleet for fleet, _ in reused]).reshape(-1, DISTANCES),
        np.array([own for _, own in reused]).reshape(-1, DISTANCES + 1),
    )
    which = tells_ttft(window)
    return told.take(which), which


def tells_ttft(window: RequestWindow) -> NDArray[np.bool_]:
    """Which requests told how long their first token took: (n,). No others are judged."""
    told: NDArray[np.bool_] = np.isfinite(window.ttft_seconds) & (window.ttft_seconds > 0)
    return told


def most_reusable(prompt_tokens: int, block_tokens: int) -> int:
    """Blocks of a prompt that can be hit: the last token is always computed."""
    return max(prompt_tokens - 1, 0) // block_tokens


def by_distance(reusable: Reusable, block_tokens: int) -> tuple[list[float], list[float]]:
    """Tokens of a request by their distance in the fleet, and by that on its engine, foreign ones last."""
    own = _spread(reusable.own, block_tokens)
    return _spread(reusable.fleet, block_tokens), [*own, float(reusable.foreign * block_tokens)]


def _spread(sections: Sequence[Section], block_tokens: int) -> list[float]:
    tokens = [0.0] * DISTANCES
    for section in sections:
        tokens[bisect_right(EDGES_TOKENS, section.distance_blocks * block_tokens)] += (
            section.blocks * block_tokens
        )
    return tokens
