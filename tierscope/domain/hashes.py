"""Block hashes as 8 bytes each, little-endian: so they travel, and so they are stored."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence

import msgspec

HASH_BYTES = 8


def pack_hashes(hashes: Sequence[int]) -> bytes:
    """Return unsigned 64-bit hashes as little-endian bytes; raises OverflowError beyond 64 bits."""
    packed = array("Q", hashes)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_hashes(packed: bytes) -> tuple[int, ...]:
    """Undo `pack_hashes`; raises ValueError for a length that is no multiple of 8."""
    hashes = array("Q")
    hashes.frombytes(packed)
    if sys.byteorder == "big":
        hashes.byteswap()
    return tuple(hashes)


class PackedHashes(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What reads like a tuple of hashes, and equals it, but is unpacked only where one is looked at.

    A collector stores the hashes of block events and looks at none of them.
    """

    packed: bytes

    @classmethod
    def of(cls, packed: bytes) -> PackedHashes:
        """Take hashes that came; raises ValueError for a length that is no multiple of 8."""
        if len(packed) % HASH_BYTES:
            raise ValueError(f"{len(packed)} bytes of hashes are no multiple of {HASH_BYTES}")
        return cls(packed)

    def __len__(self) -> int:
        return len(self.packed) // HASH_BYTES

    def __iter__(self) -> Iterator[int]:
        return iter(unpack_hashes(self.packed))

    def __getitem__(self, place: int) -> int:
        return unpack_hashes(self.packed)[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedHashes):
            return self.packed == other.packed
        return unpack_hashes(self.packed) == other

    def __hash__(self) -> int:
        return hash(unpack_hashes(self.packed))

    def __repr__(self) -> str:
        return repr(unpack_hashes(self.packed))


Hashes = tuple[int, ...] | PackedHashes


def packed(hashes: Hashes) -> bytes:
    """Return hashes as bytes, however they are; raises OverflowError beyond 64 bits."""
    return hashes.packed if isinstance(hashes, PackedHashes) else pack_hashes(hashes)
