"""Samples read for one way out: what cannot be shown is left out, counted and logged."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tierscope.registry.metrics import DROPPED_SAMPLES, METRICS
from tierscope.registry.types import Metric, Sample
from tierscope.telemetry.families import DropReason, Labels, Value, by_metric

log = logging.getLogger(__name__)

Read = Callable[[], Iterable[Sample]]


class CheckedRead:
    """Reads what `read` yields, by metric. Reading always ends well.

    `read` may be called by several threads at once. When it raises, what it yielded before is kept.
    """

    def __init__(self, read: Read, *, table: Sequence[Metric] = METRICS) -> None:
        self._read = read
        self._table = table
        self._dropped: Counter[DropReason] = Counter(dict.fromkeys(DropReason, 0))
        self._lock = threading.Lock()

    @property
    def dropped(self) -> Mapping[DropReason, int]:
        """How many samples were left out so far, by reason."""
        with self._lock:
            return dict(self._dropped)

    def by_metric(self) -> Iterator[tuple[Metric, Mapping[Labels, Value]]]:
        """Read once; yield each metric with its values by labels, and last how many were left out."""
        return by_metric(chain(self._samples(), self._own()), table=self._table, on_drop=self._drop)

    def _samples(self) -> Iterator[Sample]:
        try:
            yield from self._read()
        except Exception:  # whatever breaks the reading, the rest is served
            log.warning("reading the samples failed", exc_info=True)
            self._drop(DropReason.READ_FAILED, "everything after the failure")

    def _own(self) -> Iterator[Sample]:
        """What was left out so far; asked for last, so that this reading's own are in it."""
        if DROPPED_SAMPLES in self._table:
            for reason, count in self.dropped.items():
                yield Sample(DROPPED_SAMPLES, (reason,), count)

    def _drop(self, reason: DropReason, what: str) -> None:
        with self._lock:
            self._dropped[reason] += 1
            count = self._dropped[reason]
        # the first, then ever fewer: a fault in every reading must not fill the log
        level = logging.WARNING if count & (count - 1) == 0 else logging.DEBUG
        log.log(level, "sample left out (%s, %d so far): %s", reason, count, what)
