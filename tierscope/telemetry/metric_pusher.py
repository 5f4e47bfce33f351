"""Every metric pushed over OTLP: the same reading as /metrics, to whoever does not scrape."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from opentelemetry.sdk.metrics.export import MetricExportResult

from tierscope.domain.settings import OtlpProtocol
from tierscope.registry.metrics import METRIC_PUSHES
from tierscope.registry.types import Sample
from tierscope.telemetry.checked import CheckedRead, Read
from tierscope.telemetry.delivery import Delivery
from tierscope.telemetry.otlp import EXPORT_TIMEOUT_SECONDS, metric_exporter, resource_of
from tierscope.telemetry.otlp_metrics import Lifetime, metrics_data

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 15.0


class PushResult(StrEnum):
    """What became of a push."""

    EXPORTED = "exported"
    NOT_EXPORTED = "not_exported"
    """Its receiver did not take all of it; the next push says it again, and more."""


class MetricPusher:
    """Sends what `read` yields to an OTLP address each `interval_seconds`; without an address does nothing.

    A thread of its own reads as a scrape does and sends, so that a slow receiver delays the next push and
    nothing else. Counters and histograms are cumulative since this object was made: make it when the
    process begins to count. Raises `BadSettings` for an address that does not fit the protocol.
    """

    def __init__(
        self,
        read: Read,
        endpoint: str | None,
        *,
        service_name: str,
        service_instance: str | None = None,
        protocol: OtlpProtocol = OtlpProtocol.HTTP,
        interval_seconds: float = INTERVAL_SECONDS,
        export_timeout_seconds: float = EXPORT_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._results = Counter(dict.fromkeys(PushResult, 0))
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._given_up = threading.Event()
        self._thread: threading.Thread | None = None
        if endpoint is None:
            return
        self._checked = CheckedRead(read)
        self._exporter = metric_exporter(endpoint, protocol, timeout_seconds=export_timeout_seconds)
        self._delivery = Delivery("metrics", endpoint)
        self._resource = resource_of(service_name, service_instance)
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._since_ns = _unix_ns(clock())
        self._thread = threading.Thread(target=self._run, name="metric pusher", daemon=True)
        self._thread.start()

    @property
    def results(self) -> Mapping[PushResult, int]:
        """How many pushes came to which end so far."""
        with self._lock:
            return dict(self._results)

    def samples(self) -> Iterator[Sample]:
        """Yield the counts of `results`; nothing without an address."""
        if self._thread is not None:
            for result, count in self.results.items():
                yield Sample(METRIC_PUSHES, (result.value,), count)

    def close(self, timeout_seconds: float = 3.0) -> None:
        """Push a last time, for at most `timeout_seconds`, then let go; calling it again does nothing."""
        if self._thread is None or self._closing.is_set():
            return
        self._closing.set()
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            log.warning("the last metrics were not taken in time")
            self._given_up.set()
        self._exporter.shutdown()  # also wakes a push that waits to be tried again
        self._thread.join(0.5)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_seconds):
            self._push()
        if not self._given_up.is_set():
            self._push()

    def _push(self) -> None:
        taken = self._delivery.attempt(self._send)
        with self._lock:
            self._results[PushResult.EXPORTED if taken else PushResult.NOT_EXPORTED] += 1

    def _send(self) -> bool:
        lifetime = Lifetime(self._since_ns, max(self._since_ns, _unix_ns(self._clock())))
        reading = metrics_data(self._checked.by_metric(), self._resource, lifetime)
        return self._exporter.export(reading) is MetricExportResult.SUCCESS


def _unix_ns(unix_seconds: float) -> int:
    return round(unix_seconds * 1e6) * 1000
