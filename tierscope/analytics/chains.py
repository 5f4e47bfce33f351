"""Block chains as arrays of the small numbers kernels work on, in place of 64-bit block hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from tierscope.analytics.stems import Stems, stems_of
from tierscope.domain.trace import Int32Array, Int64Array, Trace, UInt64Array


@dataclass(frozen=True, slots=True)
class Chains:
    """n requests in order, each a path of blocks from a root of a prefix forest.

    Request i is `ids[offsets[i]:offsets[i + 1]]`; one id always has the same parent, so two paths that
    agree at a place agree everywhere before it. Shapes: `offsets` (n + 1,) int64, `ids` (accesses,)
    int32 below n_ids, each of which should occur: it costs memory.
    """

    offsets: Int64Array
    ids: Int32Array
    n_ids: int

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.offsets) - 1

    @property
    def accesses(self) -> int:
        """Number of block accesses."""
        return len(self.ids)


def chains_of(trace: Trace) -> Chains:
    """The chains of a trace; its ids are dense already."""
    n_ids = int(trace.block_ids.max()) + 1 if trace.accesses else 0
    return Chains(trace.offsets, trace.block_ids, n_ids)


def numbered(hashes: UInt64Array, offsets: Int64Array) -> Chains:
    """Number the hashes of chains in order of first appearance; a hash names all that is before it.

    Request i's chain is `hashes[offsets[i]:offsets[i + 1]]`, from a root on. Raises `BadInput` for more
    distinct hashes than int32 can number.
    """
    stems = stems_of(hashes, offsets)
    ids = np.empty(len(hashes), np.int32)
    _number(stems, offsets, ids)
    n_ids = int((stems.number + stems.end).max(initial=0))
    return Chains(offsets, ids, n_ids)


@njit(cache=True)
def _number(stems: Stems, offsets: Int64Array, ids: Int32Array) -> None:
    """Write the number of each block of each chain, its last stem first."""
    for request in range(len(offsets) - 1):
        stem = stems.last[request]
        while stem >= 0:
            above = stems.parent[stem]
            begin = stems.end[above] if above >= 0 else 0
            for place in range(begin, stems.end[stem]):
                ids[offsets[request] + place] = stems.number[stem] + place
            stem = above


def chunked(chains: Chains, per_chunk: int) -> Chains:
    """Chains of whole chunks of so many blocks, each named by its last block, as that names all before."""
    if per_chunk == 1:
        return chains
    return Chains(*_chunks(chains.offsets, chains.ids, per_chunk), chains.n_ids)


@njit(cache=True)
def _chunks(offsets: Int64Array, ids: Int32Array, per_chunk: int) -> tuple[Int64Array, Int32Array]:
    starts = np.zeros(len(offsets), np.int64)
    for i in range(len(offsets) - 1):
        starts[i + 1] = starts[i] + (offsets[i + 1] - offsets[i]) // per_chunk
    chunks = np.empty(starts[-1], np.int32)
    for i in range(len(offsets) - 1):
        for k in range(starts[i + 1] - starts[i]):
            chunks[starts[i] + k] = ids[offsets[i] + (k + 1) * per_chunk - 1]
    return starts, chunks
