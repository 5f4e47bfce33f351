"""The one ledger of an exporter: what is counted on /metrics stands on the feed, entry by entry."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from exporters.owners import OwnedTotals
from exporters.page_state import Counted, PageState, Position
from tierscope.domain.events import LedgerEntry
from tierscope.domain.identity import EngineId, SourceId
from tierscope.registry.metrics import FEED_BATCHES
from tierscope.registry.types import Sample

MOST_ENTRIES = 250
"""Entries published together; a longer list becomes several batches. A request with its blocks takes a
kilobyte or more, and queues to and at a slow collector are bounded in batches."""

Publish = Callable[[Sequence[LedgerEntry]], object]
"""Hands entries on as one batch; raises when it cannot."""


class Ledger:
    """Takes entries from every reader, publishes them, and counts exactly what it has published.

    Publishing and counting are one step under one lock: a page that says n batches shows the sums over
    the first n batches of the feed, no matter when it was read, but for what is of a time before the page's
    and for the totals of engines and caches that are gone (see `owners`).
    `state` is told how far every page had counted before it is handed out. `name` is the exporter's.
    Thread-safe.
    """

    def __init__(
        self,
        name: str,
        publish: Publish,
        state: PageState | None = None,
        *,
        tenant_series: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._publish = publish
        self._state = state or PageState(None, name)
        self._positions: dict[SourceId, Position] = {}
        self._reading = threading.Lock()
        self._batches = 0
        self._totals = OwnedTotals(monotonic, tenant_series)
        self._lock = threading.Lock()

    def post(
        self,
        source: SourceId,
        entries: Sequence[LedgerEntry],
        *,
        on_page: bool = True,
        read_until: Position | None = None,
    ) -> None:
        """Publish and count entries of one source. What could not be published is not counted; it raises.

        Entries that are not `on_page` are of a time before it. `read_until` is where the source now is.
        """
        for start in range(0, len(entries), MOST_ENTRIES):
            batch = entries[start : start + MOST_ENTRIES]
            with self._lock:
                self._publish(batch)
                self._batches += 1
                for entry in batch:
                    if on_page:
                        self._totals.count(source, entry)
                    else:
                        self._totals.remember(source, entry)
                if read_until is not None and start + MOST_ENTRIES >= len(entries):
                    self._positions[source] = read_until
        if read_until is not None and not entries:
            with self._lock:
                self._positions[source] = read_until

    def counted(self, source: SourceId, began_unix_seconds: float) -> Counted:
        """What of a stream that is opened now the page has counted, in this run or an earlier one."""
        with self._lock:
            position = self._positions.get(source) or self._state.position(source)
        return Counted(position, self._state.is_known or position is not None, began_unix_seconds)

    def forget_readings(self, source: SourceId) -> None:
        """A source no longer answers: how full its tiers are is not known, and no longer shown."""
        with self._lock:
            self._totals.forget_readings(source)

    def left(self, owner: EngineId | str) -> None:
        """An engine, with its whole replica, or a cache is gone: its totals stay until they were read."""
        with self._lock:
            self._totals.left(owner)

    def came(self, owner: EngineId | str) -> None:
        """An engine or a cache is there, perhaps again."""
        with self._lock:
            self._totals.came(owner)

    def samples(self) -> Iterator[Sample]:
        """Yield every sample of one moment."""
        with self._reading:  # one after the other, so that the last one written down is the latest
            with self._lock:
                samples = list(self._totals.samples())
                batches, positions = self._batches, dict(self._positions)
            self._state.keep(positions)
        yield from samples
        yield Sample(FEED_BATCHES, (self._name,), batches)
