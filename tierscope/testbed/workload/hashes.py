"""Block hashes: a seeded 64-bit mix of the parent's hash and the block's id, naming its whole prefix."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = (1 << 64) - 1


def mix(parent: int, unit: int) -> int:
    """Return an unsigned 64-bit value that depends on every bit of both arguments.

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over parent + (unit + 1) golden ratios.
    """
    z = (parent + 0x9E3779B97F4A7C15 * (unit + 1)) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class Chain:
    """The blocks of one growing text: their hashes in order, and the same as 8 bytes for records."""

    __slots__ = ("digests", "hashes")

    def __init__(self, hashes: Iterable[int] = (), digests: Iterable[bytes] | None = None) -> None:
        self.hashes: list[int] = list(hashes)
        self.digests: list[bytes] = (
            [value.to_bytes(8, "big") for value in self.hashes] if digests is None else list(digests)
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def prefix(self, blocks: int) -> Chain:
        """The first blocks as a chain of its own."""
        return Chain(self.hashes[:blocks], self.digests[:blocks])

    def grow(self, *, root: int, content: int, blocks: int) -> None:
        """Append blocks of the text named `content` until there are `blocks`; `root` precedes the first."""
        hashes = self.hashes
        parent = hashes[-1] if hashes else root
        for position in range(len(hashes), blocks):
            parent = mix(parent, mix(content, position))
            hashes.append(parent)
            self.digests.append(parent.to_bytes(8, "big"))
