"""Keeps the store within its bounds of age and size, and shows how it stands."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from collectors.complaints import Complaints
from collectors.sharing import Mine, everything
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.settings import CollectorSettings
from tierscope.domain.worker import Worker
from tierscope.registry import metrics, store_metrics
from tierscope.registry.types import Sample
from tierscope.storage.retention import Keeping
from tierscope.storage.store import Store

UPKEEP = "upkeep of the lake"
"""What collectors share out like their feeds."""

log = logging.getLogger(__name__)


class Keeper(Worker):
    """Reduces the store's past every `maintain_seconds`; a store that refuses is tried again then.

    Of several collectors of a lake one does it, and moves what waits in PostgreSQL into files.
    """

    def __init__(
        self, store: Store, settings: CollectorSettings, complaints: Complaints, mine: Mine = everything
    ) -> None:
        super().__init__("store-keeper")
        self._store = store
        self._keeping = Keeping(
            raw_seconds=settings.keep_raw_seconds,
            hourly_seconds=settings.keep_hourly_seconds,
            most_bytes=settings.most_store_bytes,
        )
        self._mine = mine
        self._maintain_seconds = settings.maintain_seconds
        self._keep_snapshots_seconds = settings.lake.keep_snapshots_seconds
        self._complaints = complaints
        self._retired: Counter[str] = Counter()

    def samples(self) -> Iterator[Sample]:
        """Yield what the store uses, may use and reaches back to; absent while the store does not answer."""
        if self._keeping.most_bytes is not None:
            yield Sample(store_metrics.STORE_LIMIT_BYTES, (), self._keeping.most_bytes)
        for table, rows in dict(self._retired).items():
            yield Sample(store_metrics.RETIRED_ROWS, (table,), rows)
        try:
            yield Sample(metrics.STORE_BYTES, (), self._store.size_bytes())
            used, history = self._store.used_bytes(), self._store.history_hours()
        except StoreUnusable:
            return
        yield Sample(store_metrics.STORE_USED_BYTES, (), used)
        for stage, hours in history.items():
            yield Sample(store_metrics.STORE_HISTORY_SECONDS, (stage,), 3600 * hours)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._mine(UPKEEP):
                self._keep()
            self._stopping.wait(self._maintain_seconds)

    def _keep(self) -> None:
        try:
            retired = self._store.retain(self._keeping)
            self._store.maintained(self._keep_snapshots_seconds)
        except StoreUnusable as error:
            self._complaints.say("store retention", error)
            return
        self._complaints.over("store retention")
        self._retired = self._retired + retired
        if retired.total():
            log.info("the store's past is reduced by %d rows", retired.total())
