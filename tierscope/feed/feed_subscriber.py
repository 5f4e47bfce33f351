"""A collector's end of the feed: one exporter's batches in order, over any restart of the exporter."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tierscope.domain.batch import FeedBatch, FeedGap, FeedPosition
from tierscope.domain.errors import BadInput
from tierscope.domain.tls_settings import FeedClientKeys
from tierscope.feed.codec import decode_batch, read_position
from tierscope.feed.curve import ClientKey
from tierscope.feed.messages import Gap, Message, StreamCounters, StreamItem
from tierscope.feed.sockets import Context, Socket
from tierscope.feed.stream_subscriber import StreamSubscriber

log = logging.getLogger(__name__)

LIVE_QUEUE_BATCHES = 200
REPLAY_QUEUE_BATCHES = 256
"""Batches may be large, and our publisher waits for a slow reader of a replay: short queues lose nothing."""

FeedItem = FeedBatch | FeedGap


class FeedSubscriber:
    """Receives one exporter's batches: each once, in order, and what of them is lost.

    `after` is the last batch already held; None asks for all the exporter still has. When the exporter's
    present incarnation is another one, all of that is delivered, from its batch 0. What a dead
    incarnation published after its last batch received is unknown in kind and number: it is told by a
    batch of a new incarnation (and by `counters.restarts`), not by a gap. `keys` open an encrypted feed.
    """

    def __init__(
        self,
        name: str,
        endpoint: str,
        replay_endpoint: str,
        after: FeedPosition | None,
        *,
        context: Context | None = None,
        replay_timeout_seconds: float = 5.0,
        keys: FeedClientKeys | None = None,
    ) -> None:
        self.name = name
        self._incarnation = after.incarnation if after else None
        self._last_sequence = after.sequence if after else None
        self._gaps: list[Gap] = []
        self._received = self._missing = self._undecodable = 0
        self._unknown: Counter[str] = Counter()
        self._stream = StreamSubscriber(
            endpoint,
            replay_endpoint,
            start_sequence=after.sequence + 1 if after else 0,
            source=f"feed of {name}",
            context=context,
            recognise=self._is_ours if after else None,
            replay_timeout_seconds=replay_timeout_seconds,
            live_queue_messages=LIVE_QUEUE_BATCHES,
            replay_queue_messages=REPLAY_QUEUE_BATCHES,
            key=None if keys is None else ClientKey(keys),
        )

    def receive(self, timeout_seconds: float) -> list[FeedItem]:
        """Return what is next in the feed, waiting up to `timeout_seconds`; empty when nothing came."""
        items: list[FeedItem] = []
        for item in self._stream.receive(timeout_seconds):
            if not self._take(item, items):
                break  # the rest is of a life we must hear from its beginning
        return items

    @property
    def sockets(self) -> Sequence[Socket]:
        """The sockets to wait on; see `stream_subscriber.wait`."""
        return self._stream.sockets

    @property
    def patience_seconds(self) -> float:
        """How long nothing needs to be done if no socket becomes ready."""
        return self._stream.patience_seconds

    @property
    def connected(self) -> bool:
        """Whether the exporter is at the other end, as of the last `receive`."""
        return self._stream.connected

    @property
    def counters(self) -> StreamCounters:
        """What became of the feed's batches so far; `received` ones were understood and handed on."""
        counters = self._stream.counters
        return replace(
            counters,
            received=self._received,
            missing=self._missing,
            undecodable=counters.undecodable + self._undecodable,
        )

    @property
    def incarnation(self) -> int | None:
        """The exporter's present incarnation, None before its first batch."""
        return self._incarnation

    @property
    def unknown_entries(self) -> Mapping[str, int]:
        """Entries of kinds that this release does not know, left out, by kind."""
        return MappingProxyType(self._unknown)

    def close(self) -> None:
        """Free the sockets; calling it again does nothing."""
        self._stream.close()

    def _take(self, item: StreamItem, items: list[FeedItem]) -> bool:
        """Add what one item of the stream means; False when the stream had to begin anew."""
        if isinstance(item, Message):
            return self._take_message(item, items)
        if isinstance(item, Gap):
            self._gaps.append(item)  # whose gap it is, the next batch says
            return True
        items += self._own_gaps()
        self._end_incarnation()
        return True

    def _take_message(self, message: Message, items: list[FeedItem]) -> bool:
        try:
            batch = self._decode(message)
        except BadInput as error:
            self._undecodable += 1
            if self._undecodable & (self._undecodable - 1) == 0:
                log.warning("batch left out, %d so far: %s", self._undecodable, error.one_line())
            return True
        if self._incarnation not in {None, batch.position.incarnation}:
            # A new life that the stream could not tell from the old one: hear it from its beginning.
            self._gaps.clear()
            self._end_incarnation()
            self._stream.begin_anew()
            return False
        self._incarnation = batch.position.incarnation
        self._last_sequence = batch.position.sequence
        items += self._own_gaps()
        items.append(batch)
        self._received += 1
        return True

    def _decode(self, message: Message) -> FeedBatch:
        where = f"feed of {self.name}, batch"
        batch = decode_batch(message.payload, unknown=self._unknown, where=where)
        position = batch.position
        if (position.exporter, position.sequence) != (self.name, message.sequence):
            raise BadInput(
                f"it says it is batch {position.sequence} of exporter {position.exporter!r}",
                where=f"{where} {message.sequence}",
                fix="give each feed the name and the addresses of one exporter",
            )
        return batch

    def _own_gaps(self) -> Iterator[FeedGap]:
        """Give the gaps seen since the last batch to the present incarnation, if it is known.

        A life that ended before any batch of it came has lost batches, but no name to report them under.
        """
        gaps, self._gaps = self._gaps, []
        for gap in gaps:
            self._missing += gap.messages
            if self._incarnation is not None:
                yield FeedGap(self.name, self._incarnation, gap.first, gap.last)

    def _end_incarnation(self) -> None:
        log.warning(
            "exporter %s restarted after its batch %s; what it published after that is unknown",
            self.name,
            self._last_sequence,
        )
        self._incarnation = self._last_sequence = None

    def _is_ours(self, payload: bytes) -> bool:
        """Whether the payload at our position is of the incarnation we hold a position of."""
        try:
            return read_position(payload).incarnation == self._incarnation
        except BadInput:
            return False
