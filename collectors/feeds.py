"""One exporter's feed, received by a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import zmq

from collectors.buffer import Buffer
from collectors.complaints import Complaints
from collectors.names import NameWatcher
from tierscope.domain.batch import FeedPosition
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.settings import FeedSource
from tierscope.domain.tls_settings import FeedClientKeys
from tierscope.domain.worker import Worker
from tierscope.feed.feed_subscriber import FeedSubscriber
from tierscope.feed.messages import StreamCounters
from tierscope.feed.sockets import Context
from tierscope.registry import metrics
from tierscope.registry.types import Sample

log = logging.getLogger(__name__)

RECEIVE_SECONDS = 0.2
"""Longest wait for a batch, and so for a stop."""

PATIENCE_SECONDS = 5.0
"""How long an exporter may be away before anything is said."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a feed did when its thread last looked."""

    connected: bool = False
    counters: StreamCounters = field(default_factory=StreamCounters)
    unknown: Mapping[str, int] = field(default_factory=dict)


class FeedReceiver(Worker):
    """Puts everything an exporter publishes after a position into the buffer, until stopped.

    Raises `BadSettings` for an address that is none.
    """

    def __init__(
        self,
        source: FeedSource,
        after: FeedPosition | None,
        buffer: Buffer,
        complaints: Complaints,
        *,
        context: Context,
        monotonic: Callable[[], float],
        names: NameWatcher,
        keys: FeedClientKeys | None = None,
    ) -> None:
        self._names = names
        super().__init__(f"feed-{source.name}")
        self.source = SourceId(SourceKind.FEED, source.name)
        self._endpoint = source.endpoint
        self._buffer = buffer
        self._complaints = complaints
        self._seen = _Seen()
        self._monotonic = monotonic
        self._there_at = monotonic()
        self._subscriber = FeedSubscriber(
            source.name, source.endpoint, source.replay_endpoint, after, context=context, keys=keys
        )

    def join(self) -> None:
        """Wait until it has ended."""
        super().join()
        self._subscriber.close()

    def samples(self) -> Iterator[Sample]:
        """Yield the feed's own series."""
        seen, name = self._seen, str(self.source)
        counters = seen.counters
        yield Sample(metrics.SOURCE_UP, (name,), int(seen.connected))
        for result in ("received", "missing", "undecodable"):
            yield Sample(metrics.SOURCE_MESSAGES, (name, result), getattr(counters, result))
        yield Sample(metrics.SOURCE_RESTARTS, (name,), counters.restarts)
        due = counters.received + counters.missing + counters.undecodable
        if due:
            yield Sample(metrics.COMPLETENESS, (name,), counters.received / due)
        for kind, count in seen.unknown.items():
            yield Sample(metrics.UNKNOWN_INPUT, (name, f"entry_{kind}"), count)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                items = self._subscriber.receive(RECEIVE_SECONDS)
            except zmq.ZMQError as error:
                self._complaints.say(str(self.source), self._unreadable(str(error)))
                self._stopping.wait(RECEIVE_SECONDS)
                continue
            self._look()
            if items:
                self._names.take(items)
                self._buffer.put(items)

    def _look(self) -> None:
        connected, now = self._subscriber.connected, self._monotonic()
        self._seen = _Seen(connected, self._subscriber.counters, dict(self._subscriber.unknown_entries))
        if connected:
            self._there_at = now
            self._complaints.over(str(self.source))
        elif now - self._there_at > PATIENCE_SECONDS:
            self._complaints.say(str(self.source), self._unreadable("no exporter is at the address"))

    def _unreadable(self, why: str) -> SourceUnreadable:
        return SourceUnreadable(
            why,
            where=self._endpoint,
            fix="start `tierscope export` there; what it still holds is then asked for",
        )
