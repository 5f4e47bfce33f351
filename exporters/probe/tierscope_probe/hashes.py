"""Block hashes in delta form: a chain is named by what it shares with chains sent before.

A chained hash names its whole prefix, so a chain that begins like an earlier one is written as
`{from: i, anchor: hash i-1, new: [...]}`: the first i hashes are those that end in `anchor`.
"""

from __future__ import annotations

from collections.abc import Sequence

HASH_BYTES = 8
_LOW_64_BITS = (1 << 64) - 1

HashForm = list[bytes] | dict[str, object]


def low_bytes(block_hash: object) -> bytes:
    """Return the last 8 bytes of a block hash, the part that KV events show.

    Takes bytes of any length and ints. Raises TypeError for anything else.
    """
    if isinstance(block_hash, bytes):
        return block_hash[-HASH_BYTES:]
    if isinstance(block_hash, int):
        return (block_hash & _LOW_64_BITS).to_bytes(HASH_BYTES, "big")
    raise TypeError(f"a block hash of type {type(block_hash).__name__} is not known")


class DeltaEncoder:
    """Writes chains against those of its epoch.

    An epoch is the span of records that may point at each other. The set of sent hashes always holds whole
    chains, so the longest known prefix is found by bisection. Whoever keeps the records starts a new
    epoch (`reset`) while the old one is still whole, and when the encoder is `full`.
    """

    def __init__(self, most_hashes: int = 100_000) -> None:
        self._sent: set[bytes] = set()
        self._most_hashes = most_hashes

    @property
    def full(self) -> bool:
        """Whether the epoch holds as many hashes as it should."""
        return len(self._sent) >= self._most_hashes

    def reset(self) -> None:
        """Start a new epoch: the next chain is written whole."""
        self._sent = set()

    def encode(self, hashes: Sequence[object]) -> HashForm:
        """Return a chain's whole list of 8-byte hashes, or its delta against an earlier chain."""
        known = self._known(hashes)
        new = [low_bytes(block_hash) for block_hash in hashes[known:]]
        self._sent.update(new)
        if known == 0:
            return new
        return {"from": known, "anchor": low_bytes(hashes[known - 1]), "new": new}

    def _known(self, hashes: Sequence[object]) -> int:
        """Length of the longest prefix that was sent in this epoch."""
        low, high = 0, len(hashes)
        while low < high:
            middle = (low + high + 1) // 2
            if low_bytes(hashes[middle - 1]) in self._sent:
                low = middle
            else:
                high = middle - 1
        return low
