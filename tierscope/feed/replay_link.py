"""The replay path of a stream: one question at a time, each on a socket of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import zmq

from tierscope.feed.frames import pack_sequence
from tierscope.feed.reading_end import ReadingEnd
from tierscope.feed.sockets import Socket, burst

log = logging.getLogger(__name__)


class ReplayLink:
    """Asks a publisher for its past; where `endpoint` is None, nobody may be asked."""

    def __init__(
        self, end: ReadingEnd, endpoint: str | None, *, queue_messages: int, timeout_seconds: float
    ) -> None:
        self._end = end
        self._endpoint = endpoint
        self._queue_messages = queue_messages
        self._timeout_seconds = timeout_seconds
        self._dealer: Socket | None = None
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
        return max(0.0, self._silent_since + self._timeout_seconds - self._end.monotonic())

    def ask(self, first_sequence: int) -> None:
        """Ask for all from a sequence on. Raises `BadSettings` for an address that is none."""
        assert self._endpoint is not None
        assert self._dealer is None
        self._dealer = self._end.context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.RCVHWM, self._queue_messages)
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
            self._answers = True
            yield frames

    def is_silent(self) -> bool:
        """Whether the open question is to be given up; counted, and warned of the first time."""
        if self._dealer is None or self.patience_seconds > 0:
            return False
        self.failed += 1
        level = logging.WARNING if self._answers else logging.DEBUG
        log.log(level, "%s: its replay address %s is silent", self._end.source, self._endpoint)
        self._answers = False
        return True

    def close(self) -> None:
        """Drop the open question, so that answers to it cannot mix with those to the next."""
        if self._dealer is not None:
            self._dealer.close(linger=0)
            self._dealer = None
