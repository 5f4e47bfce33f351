"""Which beginnings of prompts most requests share, and how often they were computed all the same.

The same rows as the store's view `shared_prefixes`: a prefix is shared as far as all who begin with it go on
together; where fewer go on, that is a prefix of its own. The naive twin of the tests counts sets of paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierscope.analytics.chains import numbered
from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.domain.window import RequestWindow


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """One prefix that at least two requests begin with."""

    block_hash: str
    """The hash of its last block, which names all of it: 16 hexadecimal digits."""
    parent_hash: str | None
    """The longest listed prefix that it continues; null where it continues none."""
    prefix_tokens: int
    """Tokens of its whole blocks."""
    requests: int
    replicas: int
    """Replicas that these requests went to."""
    computed_requests: int
    """Requests that computed its last block."""
    repeated_tokens: int
    """Its tokens times every use but the first: what sharing it can save."""


def shared_prefixes(window: RequestWindow, most: int) -> tuple[SharedPrefix, ...]:
    """Return the `most` prefixes whose repetition is worth most tokens, the most valuable first."""
    chains = numbered(window.block_hashes, window.offsets)
    if not chains.accesses:
        return ()
    request = np.repeat(np.arange(chains.requests), np.diff(chains.offsets))
    position = np.arange(chains.accesses) - chains.offsets[request]
    first = np.empty(chains.n_ids, dtype=np.int64)
    first[chains.ids[::-1]] = np.arange(chains.accesses)[::-1]
    parent = np.where(position[first] > 0, chains.ids[np.maximum(first - 1, 0)], -1).astype(np.int32)
    uses = np.bincount(chains.ids, minlength=chains.n_ids)
    tokens = (position[first] + 1) * window.block_tokens
    worth = np.where(_is_whole(parent, uses), tokens * (uses - 1), 0)
    best = np.argsort(-worth, kind="stable")[:most]
    chosen = best[worth[best] > 0]
    place = np.full(chains.n_ids, -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen))
    at = np.flatnonzero(place[chains.ids] >= 0)
    of, who = place[chains.ids[at]], request[at]
    computed = (position[at] + 1) * window.block_tokens > (window.prompt - window.computed)[who]
    computed_requests = np.bincount(of, weights=computed, minlength=len(chosen))
    pairs = np.unique(np.column_stack((of, window.engine[who])), axis=0)
    replicas = np.bincount(pairs[:, 0], minlength=len(chosen))
    names = window.block_hashes[first]
    return tuple(
        SharedPrefix(
            block_hash=f"{names[block]:016x}",
            parent_hash=_listed_above(block, parent, place, names),
            prefix_tokens=int(tokens[block]),
            requests=int(uses[block]),
            replicas=int(replicas[row]),
            computed_requests=int(computed_requests[row]),
            repeated_tokens=int(worth[block]),
        )
        for row, block in enumerate(chosen.tolist())
    )


def _is_whole(parent: Int32Array, uses: Int64Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which blocks (n_ids,) end a shared prefix: used twice or more, and no block after it as often."""
    whole = uses > 1
    child = np.flatnonzero(parent >= 0)
    whole[parent[child[uses[child] == uses[parent[child]]]]] = False
    return whole


def _listed_above(
    block: int, parent: Int32Array, place: Int32Array, names: np.ndarray[tuple[int], np.dtype[np.uint64]]
) -> str | None:
    above = int(parent[block])
    while above >= 0 and place[above] < 0:
        above = int(parent[above])
    return None if above < 0 else f"{names[above]:016x}"
