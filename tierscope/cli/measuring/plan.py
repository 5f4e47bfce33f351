"""What is measured: which prompts, how often, and how each tier is reached."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tierscope.domain.tiers import Origin

LENGTHS = (534, 1080, 1563, 2022, 2608, 3142)
"""Those of the published sweep."""


class Stage(StrEnum):
    """Where a prompt is meant to be served from."""

    COLD = "cold"
    """Asked for the first time: computed."""
    L0 = "l0"
    """Asked again at once."""
    L1 = "l1"
    """Asked again after its place in L0 went to others."""
    L2 = "l2"
    """Asked of the other replica, which never had it."""

    @property
    def origin(self) -> Origin:
        """Whence the prompt must have come for a timing to be of this stage."""
        return Origin.COMPUTED if self is Stage.COLD else Origin(self.value)


class Emptying(StrEnum):
    """How L0 of the first replica is emptied, L1 and L2 being left alone."""

    FILLER = "filler"
    """By prompts that nobody asked before, as many as fill it: what traffic does, too."""
    ENDPOINT = "endpoint"
    """By vLLM's /reset_prefix_cache, which it has with VLLM_SERVER_DEV_MODE=1."""
    NONE = "none"
    """Not: there is no timing of L1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One measurement. `low_token` up to, but not, `high_token` are the token ids prompts are made of.

    `l0_tokens` is the size of L0 that filler has to fill; None: as the engine's page says.
    """

    lengths: tuple[int, ...] = LENGTHS
    repeats: int = 10
    seed: int = 1
    output_tokens: int = 5
    low_token: int = 1000
    high_token: int = 30_000
    emptying: Emptying = Emptying.FILLER
    l0_tokens: int | None = None
    clear_l1: bool = False
    settle_seconds: float = 2.0

    def prompt(self, length: int, repeat: int) -> list[int]:
        """A prompt of exactly so many tokens; no two share their first block."""
        return self._tokens(length, 1, length, repeat)

    def filler(self, number: int) -> list[int]:
        """A prompt that only takes up room."""
        return self._tokens(max(self.lengths), 2, number)

    def warm_up(self, replica: int, number: int) -> list[int]:
        """A prompt that is not timed: the first ones compile and connect."""
        return self._tokens(min(self.lengths), 3, replica, number)

    def _tokens(self, length: int, *name: int) -> list[int]:
        rng = np.random.default_rng((self.seed, *name))
        tokens: list[int] = rng.integers(self.low_token, self.high_token, length).tolist()
        return tokens
