"""The newest messages of a stream, held for replay in bounded memory."""

from __future__ import annotations

ENTRY_BYTES = 160
"""What an entry costs beside its payload: the dictionary's slot, the integer, the bytes object's head."""


class Ring:
    """Payloads by sequence; the oldest leave first. The newest always stays, however large it is."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._payloads: dict[int, bytes] = {}
        self._held_bytes = 0
        self.oldest = 0
        self.following = 0
        """The sequence the next payload will get; `oldest <= sequence < following` are held."""

    def append(self, payload: bytes) -> int:
        """Hold one more payload and return its sequence."""
        sequence = self.following
        self._payloads[sequence] = payload
        self._held_bytes += len(payload) + ENTRY_BYTES
        self.following += 1
        while self._held_bytes > self._limit_bytes and self.oldest < sequence:
            self._held_bytes -= len(self._payloads.pop(self.oldest)) + ENTRY_BYTES
            self.oldest += 1
        return sequence

    def get(self, sequence: int) -> bytes | None:
        """Return a payload, None if it left or never came."""
        return self._payloads.get(sequence)

    def __len__(self) -> int:
        return len(self._payloads)
