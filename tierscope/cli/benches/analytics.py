"""How fast a trace is analysed: the exact hit ratio of every size in one pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tierscope.analytics.chains import Chains
from tierscope.analytics.curve import hit_ratio_curve
from tierscope.cli.benches.rows import Row, best_seconds

SESSIONS = 2_000
TURNS = 25
BLOCKS_A_TURN = 8


def chain_kernel() -> Iterator[Row]:
    """Sessions that grow turn by turn, interleaved; no peer in our lock computes every size at once."""
    chains = _chains(np.random.default_rng(1))
    hit_ratio_curve(chains)  # compiles
    seconds = best_seconds(lambda: hit_ratio_curve(chains))
    yield Row("exact hit ratio, every size", chains.accesses / seconds / 1e6, "M block accesses/s")


def _chains(rng: np.random.Generator) -> Chains:
    """Each session's turn t asks for its first (t + 1) x 8 blocks; sessions take turns at random."""
    session = rng.permutation(np.repeat(np.arange(SESSIONS), TURNS))
    turn = np.zeros(len(session), dtype=np.int64)
    for number in range(SESSIONS):
        turn[session == number] = np.arange(TURNS)
    lengths = (turn + 1) * BLOCKS_A_TURN
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    first = np.repeat(session * TURNS * BLOCKS_A_TURN - offsets[:-1], lengths)
    ids = (first + np.arange(offsets[-1])).astype(np.int32)
    return Chains(offsets, ids, SESSIONS * TURNS * BLOCKS_A_TURN)
