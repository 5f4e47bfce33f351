"""The replay path of a stream: one question at a time, each on a socket of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import zmq
from zmq.utils.monitor import parse_monitor_message

from tierscope.feed.frames import pack_sequence
from tierscope.feed.reading_end import ReadingEnd
from tierscope.feed.sockets import Socket, burst

log = logging.getLogger(__name__)

BUSY_FACTOR = 12
"""How many times longer the first answer may take of a publisher that is there: a minute for five seconds.
It may have its whole past to send to others first, and what it is given no time for would be lost."""

_LINKED = zmq.Event.HANDSHAKE_SUCCEEDED
_ENDED = zmq.Event.DISCONNECTED


class ReplayLink:
    """Asks a publisher for its past; where `endpoint` is None, nobody may be asked.

    A question is given up when nobody was there for `timeout_seconds`, or no answer followed the last one
    for as long. One that is there, and has not begun to answer, has `BUSY_FACTOR` times as long.
    """

    def __init__(
        self, end: ReadingEnd, endpoint: str | None, *, queue_messages: int, timeout_seconds: float
    ) -> None:
        self._end = end
        self._endpoint = endpoint
        self._queue_messages = queue_messages
        self._timeout_seconds = timeout_seconds
        self._dealer: Socket | None = None
        self._events: Socket | None = None
        self._is_there = self._has_begun = False
        self._silent_since = end.monotonic()
        self._answers = True
        self.asked = self.failed = 0

    @property
    def asking(self) -> bool:
        """Whether a question is open."""
        return self._dealer is not None

    @property
    def sockets(self) -> Sequence[Socket]:
        """The sockets to wait on."""
        return [] if self._dealer is None else [self._dealer]

    @property
    def patience_seconds(self) -> float:
        """How much longer the open question may go without an answer."""
        is_busy = self._is_there and not self._has_begun
        allowed_seconds = self._timeout_seconds * (BUSY_FACTOR if is_busy else 1)
        return max(0.0, self._silent_since + allowed_seconds - self._end.monotonic())

    def ask(self, first_sequence: int) -> None:
        """Ask for all from a sequence on. Raises `BadSettings` for an address that is none."""
        assert self._endpoint is not None
        assert self._dealer is None
        self._dealer = self._end.context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.RCVHWM, self._queue_messages)
        self._events = self._dealer.get_monitor_socket(_LINKED | _ENDED)
        self._is_there = self._has_begun = False
        self._end.connect(self._dealer, self._endpoint)
        self._dealer.send_multipart([b"", pack_sequence(first_sequence)])
        self._silent_since = self._end.monotonic()
        self.asked += 1

    def answers(self) -> Iterator[list[bytes]]:
        """Yield a burst of answers to the open question."""
        if self._dealer is None:
            return
        for frames in burst(self._dealer):
            self._silent_since = self._end.monotonic()
            self._answers = self._has_begun = True
            yield frames

    def is_silent(self) -> bool:
        """Whether the open question is to be given up; counted, and warned of the first time."""
        if self._dealer is None or self.patience_seconds > 0:
            return False
        self._look_who_is_there()
        if self.patience_seconds > 0:
            return False
        self.failed += 1
        level = logging.WARNING if self._answers else logging.DEBUG
        log.log(level, "%s: its replay address %s is silent", self._end.source, self._endpoint)
        self._answers = False
        return True

    def close(self) -> None:
        """Drop the open question, so that answers to it cannot mix with those to the next."""
        if self._dealer is None or self._events is None:
            return
        self._dealer.disable_monitor()
        self._events.close(linger=0)
        self._dealer.close(linger=0)
        self._dealer = self._events = None

    def _look_who_is_there(self) -> None:
        """Asked once the shorter time is over, and again once the longer one is."""
        assert self._events is not None
        for frames in burst(self._events):
            self._is_there = parse_monitor_message(frames)["event"] == _LINKED
