"""What the name of a chunk file says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tierscope.domain.units import BLOCK_HASH_MASK


class ChunkFormat(StrEnum):
    """Who names its files this way."""

    LMCACHE_MP = "lmcache_mp"
    """LMCache's multiprocess server, adapters `fs` and `fs_native`."""
    LMCACHE_INPROCESS = "lmcache_inprocess"
    """LMCache inside the engine, `fs://` connector."""
    LMCACHE_DISK = "lmcache_disk"
    """LMCache inside the engine, local disk backend: written in place, not renamed when it is whole."""
    VLLM_NATIVE = "vllm_native"
    """vLLM's own file-system tier."""


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One file that holds a part of a chunk, or is going to.

    A chunk has one file for each rank, object group and layer that is kept apart; `chunk_hash` is the low
    64 bits of the writer's hash, unsigned, as in its events. `world` is None where the name does not say.
    `layout` is what else keeps chunks of one hash apart: a dtype, a digest of the engine's configuration.
    `salt_hash` is the keyed hash of a cache salt or of tags; the salt itself is not kept.
    """

    format: ChunkFormat
    model: str
    chunk_hash: int
    rank: int
    world: int | None = None
    group: int = 0
    layer: int | None = None
    layout: str = ""
    salt_hash: int | None = None
    temporary: bool = False


def low_hash(digits: str) -> int:
    """Return the low 64 bits of a hash written in hexadecimal; a sign is two's complement."""
    return int(digits, 16) & BLOCK_HASH_MASK
