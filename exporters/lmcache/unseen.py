"""Chunks that leave a cache whose contents are not known, because what came into it was lost."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

MOST_CHUNKS = 1_000_000
"""Chunks that are remembered, those that left first forgotten first: 135 MB of numbers, 226 MB where each is
with its model and salt."""

Chunk = TypeVar("Chunk", bound=Hashable)


class Unseen(Generic[Chunk]):
    """Tells each such chunk once, however many parts of it leave one by one. Used by one thread."""

    def __init__(self) -> None:
        self._left: dict[Chunk, None] = {}

    def came(self, chunk: Chunk) -> None:
        """A part of a chunk came: the chunk may leave anew."""
        if self._left:
            self._left.pop(chunk, None)

    def left(self, chunk: Chunk) -> bool:
        """A part of a chunk left, and no other part of it is known; whether that is the chunk's departure."""
        if chunk in self._left:
            return False
        if len(self._left) >= MOST_CHUNKS:
            del self._left[next(iter(self._left))]
        self._left[chunk] = None
        return True
