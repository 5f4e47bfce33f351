"""A trace made for benches: sessions that grow turn by turn, interleaved."""

from __future__ import annotations

import numpy as np

from tierscope.domain.trace import Trace

SESSIONS = 2_000
TURNS = 25
BLOCKS_A_TURN = 8
BLOCK_TOKENS = 64
GAP_MS = 20


def generated_trace() -> Trace:
    """Each session's turn t asks for its first (t + 1) x 8 blocks; sessions take turns at random."""
    session = np.random.default_rng(1).permutation(np.repeat(np.arange(SESSIONS), TURNS))
    turn = np.zeros(len(session), dtype=np.int64)
    for number in range(SESSIONS):
        turn[session == number] = np.arange(TURNS)
    lengths = (turn + 1) * BLOCKS_A_TURN
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    first = np.repeat(session * TURNS * BLOCKS_A_TURN - offsets[:-1], lengths)
    n = len(session)
    return Trace(
        name="generated",
        block_tokens=BLOCK_TOKENS,
        at_ms=np.arange(n, dtype=np.int64) * GAP_MS,
        input_tokens=lengths * BLOCK_TOKENS,
        output_tokens=np.full(n, 100, dtype=np.int64),
        session=session.astype(np.int32),
        offsets=offsets,
        block_ids=(first + np.arange(offsets[-1])).astype(np.int32),
    )
