"""The one thread that writes what was received into the store."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

from collectors.buffer import Buffer, FeedItem
from collectors.complaints import Complaints
from tierscope.domain.errors import BadInput, StoreUnusable
from tierscope.domain.worker import Worker
from tierscope.registry import metrics
from tierscope.registry.types import Sample
from tierscope.storage.ingest import Appended
from tierscope.storage.store import Store

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


class StoreWriter(Worker):
    """Commits the buffer's items by size and time, and the same items again after the store refused them.

    While the store refuses, the buffer fills and the feeds wait: nothing grows, and exporters replay later.
    """

    def __init__(
        self,
        store: Store,
        buffer: Buffer,
        complaints: Complaints,
        *,
        flush_rows: int,
        flush_seconds: float,
    ) -> None:
        super().__init__("store-writer")
        self._store = store
        self._buffer = buffer
        self._complaints = complaints
        self._flush_rows = flush_rows
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._rows: Counter[str] = Counter()
        self._refused = 0
        self._refusals = 0

    def stop(self) -> None:
        """Ask it to end once the closed buffer is empty; a store that refuses is tried once more."""
        super().stop()
        self._buffer.close()

    def samples(self) -> Iterator[Sample]:
        """Yield how far behind it is, what it has written, by table, and what was refused."""
        with self._lock:
            rows, refused, refusals = dict(self._rows), self._refused, self._refusals
        yield Sample(metrics.COMMIT_WAIT_SECONDS, (), self._buffer.waited_seconds())
        yield Sample(metrics.STORE_REFUSALS, (), refusals)
        for table, count in rows.items():
            yield Sample(metrics.STORED_ROWS, (table,), count)
        if refused:
            yield Sample(metrics.UNKNOWN_INPUT, ("store", "unstorable_entry"), refused)

    def _run(self) -> None:
        while (items := self._buffer.take(self._flush_rows, self._flush_seconds)) is not None:
            if not self._commit(items):
                return  # what comes after a hole would say that the hole was never there to be asked for

    def _commit(self, items: Sequence[FeedItem]) -> bool:
        """Commit the items, however often it takes; False where the end came first."""
        retry_seconds = FIRST_RETRY_SECONDS
        while True:
            last_try = self._stopping.is_set()
            try:
                self._count(self._store.append(items))
            except StoreUnusable as error:
                with self._lock:
                    self._refusals += 1
                self._complaints.say("store", error)
            else:
                self._complaints.over("store")
                return True
            if last_try:
                log.warning("%d feed items are not stored; their exporters will be asked again", len(items))
                return False
            self._stopping.wait(retry_seconds)
            retry_seconds = min(2 * retry_seconds, LONGEST_RETRY_SECONDS)

    def _count(self, appended: Appended) -> None:
        with self._lock:
            self._rows.update(appended.rows)
            self._refused += appended.refused
        if appended.first_refusal is not None:
            self._complaints.say(
                "store entries",
                BadInput(
                    f"{appended.refused} entries fit no table and are left out: {appended.first_refusal}",
                    where="feed",
                    fix="check that exporter and collector are of the same release",
                ),
            )
