"""The newest payloads, for those who missed them."""

from __future__ import annotations


class Ring:
    """Payloads by sequence, from 0 upwards; the oldest leave when all would exceed `most_bytes`.

    The newest payload always stays, however large. Not thread-safe.
    """

    def __init__(self, most_bytes: int) -> None:
        self._payloads: dict[int, bytes] = {}
        self._most_bytes = most_bytes
        self._bytes = 0
        self.next_sequence = 0

    @property
    def oldest_sequence(self) -> int:
        """Sequence of the oldest payload still here; `next_sequence` when there is none."""
        return self.next_sequence - len(self._payloads)

    def append(self, payload: bytes) -> int:
        """Keep a payload and return its sequence."""
        sequence = self.next_sequence
        self._payloads[sequence] = payload
        self._bytes += len(payload)
        self.next_sequence += 1
        while self._bytes > self._most_bytes and len(self._payloads) > 1:
            self._bytes -= len(self._payloads.pop(self.oldest_sequence))
        return sequence

    def get(self, sequence: int) -> bytes | None:
        """Return the payload of a sequence; None if it left or is yet to come."""
        return self._payloads.get(sequence)
