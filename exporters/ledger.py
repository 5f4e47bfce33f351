"""The one ledger of an exporter: what is counted on /metrics is what stands on the feed, entry by entry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from exporters.totals import Totals
from tierscope.domain.events import LedgerEntry
from tierscope.domain.identity import SourceId
from tierscope.registry.metrics import FEED_BATCHES
from tierscope.registry.types import Sample

MOST_ENTRIES = 1000
"""Entries published together; a longer list becomes several batches."""

Publish = Callable[[Sequence[LedgerEntry]], object]
"""Hands entries on as one batch; raises when it cannot."""


class Ledger:
    """Takes entries from every reader, publishes them, and counts exactly what it has published.

    Publishing and counting are one step under one lock: a page that says n batches shows the sums over
    the first n batches of the feed, no matter when it was read. `name` is the exporter's. Thread-safe.
    """

    def __init__(self, name: str, publish: Publish) -> None:
        self._name = name
        self._publish = publish
        self._batches = 0
        self._totals = Totals()
        self._lock = threading.Lock()

    def post(self, source: SourceId, entries: Sequence[LedgerEntry]) -> None:
        """Publish and count entries of one source. What could not be published is not counted; it raises."""
        for start in range(0, len(entries), MOST_ENTRIES):
            batch = entries[start : start + MOST_ENTRIES]
            with self._lock:
                self._publish(batch)
                self._batches += 1
                for entry in batch:
                    self._totals.count(source, entry)

    def forget_readings(self, source: SourceId) -> None:
        """A source no longer answers: how full its tiers are is not known, and no longer shown."""
        with self._lock:
            self._totals.forget_readings(source)

    def samples(self) -> Iterator[Sample]:
        """Yield every sample of one moment."""
        with self._lock:
            samples = list(self._totals.samples())
            batches = self._batches
        yield from samples
        yield Sample(FEED_BATCHES, (self._name,), batches)
