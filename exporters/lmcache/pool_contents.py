"""What one server should find in its L2: the chunks it wrote there and did not delete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_CHUNKS = 200_000
"""Chunks remembered, the oldest forgotten first."""

Owner = tuple[str, str | None]
"""Model and the digest of the salt: a chunk is another one under another."""


@dataclass(slots=True)
class PoolContents:
    """The chunks a server wrote, and when it could have found each of them for the first time."""

    _since: dict[tuple[Owner, int], float] = field(default_factory=dict)

    def wrote(self, owner: Owner, chunks: Iterable[int], at_unix_seconds: float) -> None:
        """Chunks are there from now on."""
        for chunk in chunks:
            if len(self._since) >= MOST_CHUNKS:
                del self._since[next(iter(self._since))]
            self._since[owner, chunk] = at_unix_seconds

    def deleted(self, owner: Owner, chunks: Iterable[int]) -> None:
        """The server deleted chunks itself."""
        for chunk in chunks:
            self._since.pop((owner, chunk), None)

    def passed_over(self, owner: Owner, chunks: Iterable[int], at_unix_seconds: float) -> None:
        """Chunks were found, but could not be brought up: lookups until now say nothing about them."""
        for chunk in chunks:
            if (owner, chunk) in self._since:
                self._since[owner, chunk] = at_unix_seconds

    def missed(self, owner: Owner, chunk: int, asked_unix_seconds: float) -> bool:
        """A lookup ended before this chunk; whether that shows that the chunk is gone, which is noted."""
        since = self._since.get((owner, chunk))
        if since is None or since >= asked_unix_seconds:
            return False
        del self._since[owner, chunk]
        return True
