"""Prompts made for scenarios: chains of blocks, twice as many as the advice sees: the rest is its future."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests import workloads as w

DOCUMENT_BLOCKS = 16
"""A document is four chunks."""
SEEN = 600
"""Requests the advice sees; as many come after them."""


class Traffic(NamedTuple):
    """Chains in their order, and the session of each: the later half is what comes after the advice."""

    chains: list[np.ndarray]
    sessions: list[int]


Maker = Callable[[], Traffic]


def cycle(documents: int, *, seen: int = SEEN) -> Maker:
    """Documents in turn: below their sum an LRU hits nothing, at their sum everything."""
    return lambda: _without_sessions(w.cycle(documents, 2 * seen, DOCUMENT_BLOCKS))


def popular(documents: int, skew: float = 1.0, *, seen: int = SEEN, seed: int = 1) -> Maker:
    """Documents drawn independently, some far more popular than others."""
    return lambda: _without_sessions(w.drawn(documents, 2 * seen, np.random.default_rng(seed), skew))


def unrelated(*, seen: int = SEEN) -> Maker:
    """Prompts that repeat nothing."""
    return lambda: _without_sessions([w.chain_hashes(i, DOCUMENT_BLOCKS) for i in range(2 * seen)])


def shared_prefix(share: float, *, seen: int = SEEN, seed: int = 1) -> Maker:
    """Questions of which a share begins with the same two chunks; every one ends in blocks of its own."""

    def make() -> Traffic:
        rng = np.random.default_rng(seed)
        prefix = w.chain_hashes(1, 8)
        chains = []
        for i in range(2 * seen):
            own = w.chain_hashes(10 + i, DOCUMENT_BLOCKS)
            chains.append(np.concatenate((prefix, own[8:])) if rng.random() < share else own)
        return _without_sessions(chains)

    return make


def conversations(at_once: int, turns: int = 8, *, seen: int = SEEN, seed: int = 1) -> Maker:
    """Sessions that take turns at random, each prompt a chunk longer; where one ends, another begins."""

    def make() -> Traffic:
        rng = np.random.default_rng(seed)
        ongoing = [(number, int(rng.integers(turns))) for number in range(at_once)]
        following = at_once
        chains, sessions = [], []
        for _ in range(2 * seen):
            place = int(rng.integers(at_once))
            session, turn = ongoing[place]
            chains.append(w.chain_hashes(session, 4 * (turn + 1)))
            sessions.append(session)
            ongoing[place] = (session, turn + 1)
            if turn + 1 == turns:
                ongoing[place] = (following, 0)
                following += 1
        return Traffic(chains, sessions)

    return make


def changing(*, seen: int = SEEN, seed: int = 1) -> Maker:
    """Popular documents that give way, late in what is seen, to others that hardly repeat."""

    def make() -> Traffic:
        rng = np.random.default_rng(seed)
        before = w.drawn(200, int(seen * 0.75), rng)
        after = w.drawn(3000, 2 * seen - len(before), rng, skew=0.2)
        return _without_sessions([*before, *(chain + np.uint64(1 << 50) for chain in after)])

    return make


def _without_sessions(chains: list[np.ndarray]) -> Traffic:
    return Traffic(chains, [0] * len(chains))
