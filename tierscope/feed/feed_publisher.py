"""An exporter's end of the feed."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence

from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.events import LedgerEntry
from tierscope.domain.tls_settings import FeedServerKeys
from tierscope.feed.codec import encode_batch
from tierscope.feed.curve import ServerLock
from tierscope.feed.sockets import Context
from tierscope.feed.stream_publisher import StreamPublisher

LIVE_QUEUE_BATCHES = 200
"""Batches queued for one slow collector: they are large, and the replay brings back what is dropped. Ten
thousand of them held a gigabyte beside the buffer that is there for it."""

INCARNATION_BITS = 63
"""So that an incarnation fits a signed column everywhere."""


class FeedPublisher:
    """Publishes ledger entries in numbered batches that collectors can ask for again.

    Every publisher is a new incarnation, told in each batch; `incarnation` is random unless given.
    `buffer_bytes` bounds what can be asked for again. `clock` gives unix seconds. Thread-safe.
    With `keys` it is encrypted, and read by those alone whom they name. Raises `BadSettings` when an address
    cannot be bound or a key not be used.
    """

    def __init__(
        self,
        name: str,
        endpoint: str,
        replay_endpoint: str,
        buffer_bytes: int,
        clock: Callable[[], float],
        *,
        incarnation: int | None = None,
        context: Context | None = None,
        keys: FeedServerKeys | None = None,
    ) -> None:
        self.name = name
        self.incarnation = secrets.randbits(INCARNATION_BITS) if incarnation is None else incarnation
        self._clock = clock
        self._lock = threading.Lock()
        self._following = 0
        self._stream = StreamPublisher(
            endpoint,
            replay_endpoint,
            buffer_bytes=buffer_bytes,
            context=context,
            lock=None if keys is None else ServerLock(keys),
            live_queue_messages=LIVE_QUEUE_BATCHES,
        )
        self.endpoint = self._stream.endpoint
        self.replay_endpoint = self._stream.replay_endpoint

    @property
    def batches(self) -> int:
        """How many batches were published."""
        return self._following

    def publish(self, entries: Sequence[LedgerEntry]) -> FeedPosition:
        """Publish the entries together and return where in the feed they stand.

        Raises `BadInput` for an entry that cannot be written; the feed then goes on without the batch.
        """
        with self._lock:
            position = FeedPosition(self.name, self.incarnation, self._following)
            payload = encode_batch(FeedBatch(position, self._clock(), tuple(entries)))
            self._following = self._stream.publish(payload) + 1
            return position

    def close(self) -> None:
        """Stop publishing and replaying, and free both addresses."""
        self._stream.close()
