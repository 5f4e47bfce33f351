"""The inference gateway: scorers added up by weight, the highest sum wins, ties at random.

It scores what waits (the fewest 1, the most 0, all equal 1) and the share of KV memory that is free, both as
the engines' pages told when it read them last, and how much of the prompt it remembers to have sent to a
replica. That memory is an LRU a replica, of its own making: it is not told what the engine evicted, nor what
L1 and L2 still have. All is learned when a request is routed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.trace import FloatArray, Int32Array, Int64Array
from tierscope.sim.memory import Memory, pin, unpin

INDEX_TOKENS = 131_072
"""What of a prompt is remembered, from its start."""


class Index(NamedTuple):
    """What a gateway goes by: its own memory of so many tokens a replica, or what the engines tell it.

    Of a prompt it looks at the first `prompt_tokens`. The defaults are those of today: 31,250 blocks of 64
    tokens. Late in 2025 a block was 64 bytes, and a prompt's first 256 were looked at. A `relative` one says
    how much more of a prompt a replica has than the one that has least of it, as those told by the engines
    did until May 2026; today it is the share of the whole prompt.
    """

    tokens: int = 31_250 * 64
    prompt_tokens: int = INDEX_TOKENS
    precise: bool = False
    relative: bool = False


class Weights(NamedTuple):
    """What each score is worth; the defaults of the chart."""

    queue: float = 2.0
    kv_cache: float = 2.0
    prefix: float = 3.0


@njit(cache=True)
def pick(weights: Weights, waiting: Int64Array, busy: FloatArray, known: FloatArray, draw: float) -> int:
    """The replica for a prompt; `draw` is a number from 0 to 1.

    `waiting` requests, the `busy` share of KV memory and the `known` share of the prompt: (replicas,) each.
    """
    scores = weights.kv_cache * (1 - busy) + weights.prefix * known
    for replica in range(len(scores)):
        scores[replica] += weights.queue * _fewest(waiting, replica)
    return _highest(scores, draw)


@njit(cache=True)
def spread(known: FloatArray) -> None:
    """Tell replicas that have anything of a prompt apart: 0 for the least of them, 1 for the most.

    All have 1 where they have as much. One that has all but the last question of a prompt is then worth
    nothing beside one that has that too.
    """
    most, least = known.max(), np.inf
    for share in known:
        if 0 < share < least:
            least = share
    for replica in range(len(known)):
        if known[replica] > 0:
            known[replica] = 1.0 if most == least else (known[replica] - least) / (most - least)


@njit(cache=True)
def learn(index: Memory, replica: int, path: Int32Array) -> None:
    """Remember that a replica was sent these blocks."""
    kept = path[: index.capacity_blocks]
    if pin(index, replica, kept, 0):
        unpin(index, replica, kept, len(kept), 0)


@njit(cache=True)
def _fewest(waiting: Int64Array, replica: int) -> float:
    most, fewest = waiting.max(), waiting.min()
    return 1.0 if most == fewest else (most - waiting[replica]) / (most - fewest)


@njit(cache=True)
def _highest(scores: FloatArray, draw: float) -> int:
    """One of the replicas with the highest score, each as likely."""
    best = scores.max()
    ties = 0
    for score in scores:
        ties += score == best
    skip = int(draw * ties)
    for replica in range(len(scores)):
        if scores[replica] == best:
            if skip == 0:
                return replica
            skip -= 1
    return 0
