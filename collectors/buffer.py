"""What was received and is not yet committed: bounded, so that a slow disk slows its feeds down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tierscope.domain.batch import FeedBatch, FeedGap

FeedItem = FeedBatch | FeedGap

BLOCKS_A_ROW = 32
"""Block hashes that weigh as much as a row, so that a bound in rows is one in memory."""


def weight_rows(item: FeedItem) -> int:
    """How much a feed's item weighs, in rows: its entries, and what their block hashes add."""
    if isinstance(item, FeedGap):
        return 1
    return 1 + sum(1 + len(getattr(entry, "block_hashes", ())) // BLOCKS_A_ROW for entry in item.entries)


class Buffer:
    """Items of all feeds on their way to the writer, in order of arrival. Thread-safe.

    Holds up to `most_rows`; then `put` waits, and so does the feed behind it. One writer takes.
    """

    def __init__(self, most_rows: int, monotonic: Callable[[], float]) -> None:
        self._most_rows = most_rows
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._items: list[FeedItem] = []
        self._rows = 0
        self._oldest: float | None = None
        self._oldest_taken: float | None = None
        self._hurried = self._closed = False

    def put(self, items: Sequence[FeedItem]) -> None:
        """Add items, after waiting for room."""
        rows = sum(map(weight_rows, items))
        with self._changed:
            self._changed.wait_for(
                lambda: self._hurried or not self._rows or self._rows + rows <= self._most_rows
            )
            if self._oldest is None:
                self._oldest = self._monotonic()
            self._items += items
            self._rows += rows
            self._changed.notify_all()

    def take(self, flush_rows: int, flush_seconds: float) -> list[FeedItem] | None:
        """Return everything, once it is `flush_rows` or its oldest item waited `flush_seconds`.

        Asking says that what was taken before is done with. None: the buffer is closed and empty.
        """
        with self._changed:
            self._oldest_taken = None
            while not (self._closed or self._rows >= flush_rows):
                waited = 0.0 if self._oldest is None else self._monotonic() - self._oldest
                if self._oldest is not None and waited >= flush_seconds:
                    break
                self._changed.wait(None if self._oldest is None else flush_seconds - waited)
            if self._closed and not self._items:
                return None
            items, self._items = self._items, []
            self._oldest_taken = self._oldest
            self._rows, self._oldest = 0, None
            self._changed.notify_all()
            return items

    def waited_seconds(self) -> float:
        """How long the oldest item that is here, or taken and not done with, has waited; 0 without any."""
        with self._changed:
            since = self._oldest if self._oldest_taken is None else self._oldest_taken
            return 0.0 if since is None else max(0.0, self._monotonic() - since)

    def hurry(self) -> None:
        """Let no one wait for room any more: feeds are ending, and what they hold is kept."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def close(self) -> None:
        """No one puts any more: hand out the rest without waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
