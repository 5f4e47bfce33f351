"""Least recently used: a request touches its whole path leaf first, root last, as vLLM frees its blocks.

Method. The blocks that a request was the last to touch are a suffix of its path, and they leave from its end:
so a cache is one section a request, places `first[i]..last[i]` of its path, and a request costs as many steps
as it takes over sections, however long its path. Only `owners` is written a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.traces.paths import Paths, run_end


class Sections(NamedTuple):
    """Resident blocks by the request that touched them last: places first[i] to last[i] - 1, (n,) each."""

    first: Int64Array
    last: Int64Array


@njit(cache=True)
def leading_hits(paths: Paths, capacity_blocks: int) -> Int32Array:
    """Leading blocks of each request that the cache holds when it comes: (n,) int32."""
    n = len(paths.offsets) - 1
    hits = np.zeros(n, np.int32)
    owners = np.full(paths.n_ids, -1, np.int32)
    sections = Sections(np.zeros(n, np.int64), np.zeros(n, np.int64))
    resident = 0
    oldest = 0
    for request in range(n):
        hits[request], held = _take_over(paths, request, owners, sections)
        start, end = paths.offsets[request], paths.offsets[request + 1]
        for k in range(start, end):
            owners[paths.ids[k]] = request
        sections.last[request] = end - start
        resident += end - start - held
        while resident > capacity_blocks:
            drop = min(sections.last[oldest] - sections.first[oldest], resident - capacity_blocks)
            sections.last[oldest] -= drop
            resident -= drop
            if sections.first[oldest] == sections.last[oldest]:
                oldest += 1
    return hits


@njit(cache=True)
def _take_over(paths: Paths, request: int, owners: Int32Array, sections: Sections) -> tuple[int, int]:
    """Take a path out of the sections it lies in; returns its leading hits, and all resident blocks of it."""
    start = paths.offsets[request]
    length = paths.offsets[request + 1] - start
    place = 0
    held = 0
    hits = 0
    while place < length:
        owner = owners[paths.ids[start + place]]
        if owner < 0:
            break
        end = run_end(paths, request, place, owner)
        in_run = max(min(end, sections.last[owner]) - place, 0)
        if hits == place:
            hits += in_run
        held += in_run
        sections.first[owner] = end
        sections.last[owner] = max(sections.last[owner], end)
        place = end
    return hits, held
