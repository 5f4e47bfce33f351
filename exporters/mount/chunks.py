"""The chunks of a pool, and which came and which went between two scans. Pure.

A chunk has as many files as ranks, groups and layers are kept apart, and is of use with all of them only. How
many that are no name says: it is the most that were ever seen together. A chunk counts as removed when it
loses the first of them, once, and as stored again when it has all of them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exporters.mount.files import IS_CHUNK_PART, FileArray, find
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.tiers import Tier

CHUNK = np.dtype(
    [
        ("key", "u8"),  # as in FILE; the array is sorted by it
        ("hash", "u8"),
        ("files", "u4"),  # the most that were seen together
        ("model", "u2"),
        ("whole", "?"),
    ]
)
"""One chunk of a pool."""

ChunkArray = NDArray[np.void]
"""(n,) of CHUNK."""

MOST_HASHES = 4096
"""Chunks told in one event."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The chunks that came and those that went, each an array of CHUNK."""

    stored: ChunkArray
    removed: ChunkArray

    def events(self, holder: str, at_unix_seconds: float) -> Iterator[BlockEvent]:
        """Yield what happened to L2; `holder` is the pool, the time is when the scan ended."""
        for start in range(0, len(self.removed), MOST_HASHES):
            hashes = self.removed["hash"][start : start + MOST_HASHES]
            yield _event(BlockAction.EVICTED, holder, hashes, at_unix_seconds)
        for start in range(0, len(self.stored), MOST_HASHES):
            hashes = self.stored["hash"][start : start + MOST_HASHES]
            yield _event(BlockAction.STORED, holder, hashes, at_unix_seconds)


def chunks_of(files: FileArray) -> ChunkArray:
    """Return the chunks that files hold parts of, all taken to be whole."""
    order = np.argsort(files["chunk_key"]).astype(np.uint32)  # half the memory; there are no 4 billion files
    order = order[IS_CHUNK_PART[files["kind"][order]]]
    keys = files["chunk_key"][order]
    is_first = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first).astype(np.uint32)
    chunks = np.empty(len(starts), dtype=CHUNK)
    chunks["key"] = keys[starts]
    del keys, is_first
    chunks["files"] = np.diff(starts, append=np.uint32(len(order)))
    order = order[starts]
    chunks["hash"] = files["chunk_hash"][order]
    chunks["model"] = files["model"][order]
    chunks["whole"] = True
    return chunks


def compare(
    before: ChunkArray, now: ChunkArray, *, missing_is_removed: bool = True
) -> tuple[ChunkArray, Changes]:
    """Return the chunks as they are now, with what is known of before, and what changed.

    `now` is as `chunks_of` gave it, and is updated and returned where that is enough.
    `missing_is_removed` is false when a part of the directory could not be read and nothing says what lay
    there: then what was not seen stays as it was.
    """
    places, was_there = find(before["key"], now["key"])
    was_whole = was_there.copy()
    if len(before):
        was_whole &= before["whole"][places]
        most = np.where(was_there, before["files"][places], 0)
        now["whole"] = now["files"] >= most
        np.maximum(now["files"], most, out=now["files"])
    missing = np.ones(len(before), dtype=np.bool_)
    missing[places[was_there]] = False
    broken = now[was_whole & ~now["whole"]]
    stored = now[now["whole"] & ~was_whole]
    if missing_is_removed:
        gone = before[missing & before["whole"]]
        return now, Changes(stored, np.concatenate([gone, broken]))
    together = np.concatenate([now, before[missing]])
    return together[np.argsort(together["key"])], Changes(stored, broken)


def _event(
    action: BlockAction, holder: str, hashes: NDArray[np.uint64], at_unix_seconds: float
) -> BlockEvent:
    return BlockEvent(
        tier=Tier.L2,
        holder=holder,
        action=action,
        block_hashes=tuple(hashes.tolist()),
        at_unix_seconds=at_unix_seconds,
        reason=EvictionReason.POOL_REMOVED if action is BlockAction.EVICTED else None,
    )
