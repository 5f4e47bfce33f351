"""`prefixaware`: a trie of the prompts it routed before, piece by piece; never told what was evicted.

It picks at random among the replicas that share the longest known prefix, among all when nothing is known,
and notes the whole prompt for the pick. So whoever is first with a piece that all prompts begin with gets
all of them, for ever: the deepest match is always on that replica, and only its own mark is ever added.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import FloatArray, Int32Array, Int64Array
from tierscope.sim.paths import chunk_paths
from tierscope.sim.routers.arrivals import Arrivals
from tierscope.sim.routers.least_asked import count, least_asked, nothing_asked
from tierscope.traces.paths import Paths

PIECE_CHARACTERS = 128
CHARACTERS_A_TOKEN = 4
"""Of English text with today's tokenizers, about."""
MOST_REPLICAS = 62


def place(arrivals: Arrivals, replicas: int, rng: np.random.Generator) -> Int32Array:
    """The replica of each request: (n,)."""
    return place_with(arrivals, replicas, rng, min_match_characters=0)


def place_with(
    arrivals: Arrivals, replicas: int, rng: np.random.Generator, *, min_match_characters: int
) -> Int32Array:
    """The same where a match shorter than this is none, and goes to whoever was asked least."""
    if replicas > MOST_REPLICAS:
        raise BadInput(
            f"{replicas} replicas are more than the model of prefixaware has marks for",
            where="replicas",
            fix=f"simulate at most {MOST_REPLICAS}",
        )
    per_piece, characters = pieces_of(arrivals.block_tokens)
    pieces = chunk_paths(arrivals.paths, per_piece)
    return _place(
        pieces, arrivals.at_ms, replicas, rng.random(len(arrivals.at_ms)), min_match_characters / characters
    )


def pieces_of(block_tokens: int) -> tuple[int, int]:
    """Blocks that make one piece or more, and the characters of those: the finest a trace can tell."""
    characters = block_tokens * CHARACTERS_A_TOKEN
    per_piece = max(round(PIECE_CHARACTERS / characters), 1)
    return per_piece, per_piece * characters


@njit(cache=True)
def _place(
    pieces: Paths, at_ms: Int64Array, replicas: int, draws: FloatArray, min_match_pieces: float
) -> Int32Array:
    n = len(at_ms)
    marks = np.zeros(pieces.n_ids, np.int64)
    asked = nothing_asked(replicas, n)
    placement = np.empty(n, np.int32)
    everyone = (1 << replicas) - 1
    for request in range(n):
        path = pieces.ids[pieces.offsets[request] : pieces.offsets[request + 1]]
        known = _known(marks, path)
        if known < min_match_pieces:
            replica = least_asked(asked, at_ms[request])
        else:
            among = marks[path[known - 1]] if known else everyone
            replica = _one_of(among, draws[request])
        _note(marks, path, 1 << replica)
        count(asked, replica, at_ms[request])
        placement[request] = replica
    return placement


@njit(cache=True)
def _known(marks: Int64Array, path: Int32Array) -> int:
    """Leading pieces that any replica was sent. Marks only grow rarer along a path: halve."""
    low, high = 0, len(path)
    while low < high:
        middle = (low + high) // 2
        if marks[path[middle]]:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _one_of(among: int, draw: float) -> int:
    """One of the replicas in a set of bits, each as likely."""
    left = among
    size = 0
    while left:
        left &= left - 1
        size += 1
    skip = int(draw * size)
    replica = 0
    while True:
        if (among >> replica) & 1:
            if skip == 0:
                return replica
            skip -= 1
        replica += 1


@njit(cache=True)
def _note(marks: Int64Array, path: Int32Array, bit: int) -> None:
    """Mark a path's pieces, from the last to the first that has the mark: those before have it too."""
    for k in range(len(path) - 1, -1, -1):
        if marks[path[k]] & bit:
            return
        marks[path[k]] |= bit
