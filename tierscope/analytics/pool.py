"""What readings of a shared pool say: how fast it grows, whether it makes room, what in it is of no use."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import UInt64Array

SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class PoolReading:
    """One complete scan of a pool's directory, with the size of the file system where it is known.

    `removed_blocks` counts chunks that vanished, from any fixed beginning. Bytes of the directory are its
    files'; `used_bytes` are everybody's, for a pool has no quota a directory.
    """

    at_unix_seconds: float
    files: int
    file_bytes: float
    removed_blocks: int
    capacity_bytes: float | None = None
    used_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class PoolGrowth:
    """What happened to a pool between two scans, and where that leads if it goes on.

    `fill_bytes_per_hour` is the net growth of what fills the pool: of its used bytes where they are known,
    else of the directory's. `seconds_until_full` counts from the later scan; None: it does not grow, or
    its size is not known. `evicts` is whether any chunk was removed.
    """

    seconds: float
    files_per_hour: float
    file_bytes_per_hour: float
    fill_bytes_per_hour: float
    evicts: bool
    seconds_until_full: float | None


def pool_growth(earlier: PoolReading, later: PoolReading) -> PoolGrowth:
    """Return how a pool grew between two scans; raises `BadInput` where they are not in order."""
    seconds = later.at_unix_seconds - earlier.at_unix_seconds
    if seconds <= 0 or later.removed_blocks < earlier.removed_blocks:
        raise BadInput(
            f"two readings of a pool are not in order: {earlier} and {later}",
            where="pool_growth",
            fix="give two scans of one exporter's life, the earlier one first",
        )

    def per_hour(before: float, after: float) -> float:
        return (after - before) / seconds * SECONDS_AN_HOUR

    file_bytes = per_hour(earlier.file_bytes, later.file_bytes)
    fill = file_bytes
    if earlier.used_bytes is not None and later.used_bytes is not None:
        fill = per_hour(earlier.used_bytes, later.used_bytes)
    until_full: float | None = None
    if later.capacity_bytes is not None and fill > 0:
        used = later.file_bytes if later.used_bytes is None else later.used_bytes
        until_full = max(0.0, later.capacity_bytes - used) / fill * SECONDS_AN_HOUR
    return PoolGrowth(
        seconds=seconds,
        files_per_hour=per_hour(earlier.files, later.files),
        file_bytes_per_hour=file_bytes,
        fill_bytes_per_hour=fill,
        evicts=later.removed_blocks > earlier.removed_blocks,
        seconds_until_full=until_full,
    )


@dataclass(frozen=True, slots=True)
class Orphans:
    """Chunks of a pool that no request can hit, because one before them in their prefix is not there.

    Hashes alone do not say what comes before what: only `chained` chunks could be judged, those of which
    every ancestor is known. `orphans` (n,) are the hashes of those that are of no use.
    """

    chunks: int
    chained: int
    orphans: UInt64Array


def find_orphans(present: UInt64Array, chains: Iterable[UInt64Array]) -> Orphans:
    """Judge the chunks of a pool by chains that requests looked up, each from the root of its prefix.

    `present` holds the chunks' hashes, in any order; a chunk that no chain names is not judged.
    """
    present = np.unique(present)
    judged = np.zeros(len(present), dtype=np.bool_)
    useful = np.zeros(len(present), dtype=np.bool_)
    for chain in chains:
        if not len(present) or not len(chain):
            continue
        places = np.minimum(np.searchsorted(present, chain), len(present) - 1)
        there = present[places] == chain
        judged[places[there]] = True
        missing = np.flatnonzero(~there)
        reached = len(chain) if not len(missing) else int(missing[0])
        useful[places[:reached]] = True
    return Orphans(len(present), int(judged.sum()), present[judged & ~useful])


def unserved_models(found: Collection[str], served: Collection[str]) -> tuple[str, ...]:
    """Return the models with files in a pool that nobody serves, sorted.

    Caches name a model by its path, engines by the name it is served under: models whose last parts agree
    are taken for one, whatever their case.
    """
    known = {_last_part(name) for name in served}
    return tuple(sorted(name for name in found if _last_part(name) not in known))


def _last_part(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].lower()
