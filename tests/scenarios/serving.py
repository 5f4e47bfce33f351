"""Serving a scenario's prompts by caches that hold lists of blocks and really evict: none of it is ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tests import naive
from tests import workloads as w

BLOCKS_A_CHUNK = w.CHUNK_TOKENS // w.BLOCK_TOKENS


class Served(NamedTuple):
    """Tokens of each request by where they came from: (n,) each."""

    l0: np.ndarray
    l1: np.ndarray
    l2: np.ndarray

    @property
    def total(self) -> np.ndarray:
        return self.l0 + self.l1 + self.l2


class Fleet(NamedTuple):
    """Who serves which prompt; `engine` (n,) numbers the replicas.

    `seeds_differ`: each names blocks its way. `l1_drops_loads`: L1 keeps what its own replica computed.
    """

    chains: Sequence[np.ndarray]
    engine: np.ndarray
    seeds_differ: bool = False
    l1_drops_loads: bool = False

    def named(self, request: int) -> np.ndarray:
        """The hashes of a request's blocks as its replica computes them."""
        chain = self.chains[request]
        own = np.uint64(int(self.engine[request]) + 1) << np.uint64(56)
        return chain ^ own if self.seeds_differ else chain

    def blocks(self) -> list[list[int]]:
        return [self.named(i).tolist() for i in range(len(self.chains))]

    def chunks(self) -> list[list[int]]:
        """Whole chunks, each named by its last block."""
        return [path[BLOCKS_A_CHUNK - 1 :: BLOCKS_A_CHUNK] for path in self.blocks()]


def serve(fleet: Fleet, units: Mapping[str, int]) -> Served:
    """Serve every request at sizes in blocks (`l0`) and chunks (`l1`, `l2`); a tier left out is not there."""
    everyone = np.zeros(len(fleet.chains), dtype=np.int64)
    blocks, chunks = fleet.blocks(), fleet.chunks()
    l0 = _held(blocks, fleet.engine, units.get("l0", 0)) * w.BLOCK_TOKENS
    if fleet.l1_drops_loads:
        l1 = np.array(naive.hits_of_own_units(chunks, fleet.engine.tolist(), units["l1"])) * w.CHUNK_TOKENS
    else:
        l1 = _held(chunks, fleet.engine, units.get("l1", 0)) * w.CHUNK_TOKENS
    l2 = _held(chunks, everyone, units.get("l2", 0)) * w.CHUNK_TOKENS
    down_to_l1 = np.maximum(l0, l1)
    return Served(l0, down_to_l1 - l0, np.maximum(down_to_l1, l2) - down_to_l1)


def _held(paths: Sequence[Sequence[int]], holder: np.ndarray, capacity: int) -> np.ndarray:
    """Leading units of each path that its holder's cache has when it comes."""
    hits = np.zeros(len(paths), dtype=np.int64)
    if capacity:
        for one in np.unique(holder):
            mine = np.flatnonzero(holder == one)
            hits[mine] = naive.hits_by_replaying_a_cache([paths[i] for i in mine], capacity)
    return hits
