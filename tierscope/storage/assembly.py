"""Many chains at once out of their deltas, at the speed of copying."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tierscope.domain.trace import Int64Array, UInt64Array


class DeltaRows(NamedTuple):
    """n rows in delta form. Shapes: (n,) int64 each, `new_hashes` (sum of new blocks,).

    `parent` is the row number of a row's parent, -1 where its chain is whole; a row's new hashes are
    `new_hashes[new_starts[i] : new_starts[i] + blocks[i] - common[i]]`.
    """

    parent: Int64Array
    common: Int64Array
    blocks: Int64Array
    new_starts: Int64Array
    new_hashes: UInt64Array


def assembled(rows: DeltaRows, wanted: Int64Array) -> tuple[Int64Array, UInt64Array]:
    """Return (offsets, hashes): the chain of row `wanted[k]` is `hashes[offsets[k]:offsets[k + 1]]`.

    Every row that is wanted, and its parents up to a whole chain, must be in `rows`.
    """
    offsets = np.zeros(len(wanted) + 1, dtype=np.int64)
    np.cumsum(rows.blocks[wanted], out=offsets[1:])
    hashes = np.empty(int(offsets[-1]), dtype=np.uint64)
    _copy_chains(rows, wanted, offsets, hashes)
    return offsets, hashes


@numba.njit(cache=True)
def _copy_chains(rows: DeltaRows, wanted: Int64Array, offsets: Int64Array, hashes: UInt64Array) -> None:
    """Fill `hashes` from the back: a row's own blocks, then what it shares with its parent, and so on.

    Assumes that a parent's chain is at least as long as what is shared with it, and that it has fewer
    common blocks than its child (it introduced the last one).
    """
    for k in range(len(wanted)):
        row = wanted[k]
        start = offsets[k]
        upto = rows.blocks[row]
        while upto > 0:
            common = rows.common[row]
            source = rows.new_starts[row]
            for i in range(upto - common):
                hashes[start + common + i] = rows.new_hashes[source + i]
            upto = common
            row = rows.parent[row]
