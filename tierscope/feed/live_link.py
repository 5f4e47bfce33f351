"""The live path of a stream: a socket that knows whether anybody is at its other end, and never gives up."""

from __future__ import annotations

import errno
import math
from collections.abc import Sequence

import zmq
from zmq.utils.monitor import parse_monitor_message

from tierscope.feed.reading_end import ReadingEnd
from tierscope.feed.sockets import Socket, burst

LONGEST_RETRY_MILLISECONDS = 2_000
"""Between two attempts of libzmq's to reach an address where nobody listens."""

FIRST_REFUSED_SECONDS = 0.5
LONGEST_REFUSED_SECONDS = 15.0
"""A publisher that refused us is tried again after the first pause, then after ever longer ones."""

_LINKED = zmq.Event.HANDSHAKE_SUCCEEDED
_ENDED = zmq.Event.DISCONNECTED
_RETRIED = zmq.Event.CONNECT_RETRIED


class LiveLink:
    """A SUB socket, connected from `open` to `close`.

    libzmq tries again when a connection breaks, but not after a handshake was refused (a key that is not
    known yet, a publisher that is not encrypted yet) or a peer said what is no ZMTP. It then tells the end
    of the connection and no other attempt: those are made here, with a back-off. The link is also made anew
    when a key is another.
    """

    def __init__(self, end: ReadingEnd, endpoint: str, *, topic: bytes, queue_messages: int) -> None:
        self._end = end
        self._endpoint = endpoint
        self._connected_with = None if end.key is None else end.key.keys
        self._refused_seconds = FIRST_REFUSED_SECONDS
        self._retry_at = math.inf
        self.connected = False
        self._socket = end.context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, queue_messages)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, LONGEST_RETRY_MILLISECONDS)
        self._socket.setsockopt(zmq.SUBSCRIBE, topic)
        self._events = self._socket.get_monitor_socket(_LINKED | _ENDED | _RETRIED)

    def open(self) -> None:
        """Connect. Raises `BadSettings` for an address that is none."""
        self._end.connect(self._socket, self._endpoint)

    def sockets(self, *, with_messages: bool) -> Sequence[Socket]:
        """The sockets to wait on; without that of the messages while no more of them are wanted."""
        return [self._events, self._socket] if with_messages else [self._events]

    @property
    def patience_seconds(self) -> float:
        """How long nothing needs to be done if no socket becomes ready."""
        return max(0.0, self._retry_at - self._end.monotonic())

    def messages(self) -> Sequence[list[bytes]]:
        """Take a burst of messages."""
        return list(burst(self._socket))

    def look(self) -> bool:
        """Do what became due; return whether a connection was made since the last look.

        Look after taking messages: that it was made is told before its first message.
        """
        made = False
        for frames in burst(self._events):
            event = parse_monitor_message(frames)["event"]
            self.connected = event == _LINKED
            made = made or self.connected
            self._retry_at = self._end.monotonic() + self._refused_seconds if event == _ENDED else math.inf
        if made:
            self._refused_seconds = FIRST_REFUSED_SECONDS
        if self._end.key is not None and (keys := self._end.key.keys) != self._connected_with:
            self._connected_with = keys
            self._connect_anew(FIRST_REFUSED_SECONDS)
        elif self._end.monotonic() >= self._retry_at:
            self._connect_anew(min(2 * self._refused_seconds, LONGEST_REFUSED_SECONDS))
        return made

    def close(self) -> None:
        """Free the sockets."""
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.close(linger=0)

    def _connect_anew(self, refused_seconds: float) -> None:
        """Leave the address and go there again: what is published meanwhile is replayed."""
        self._refused_seconds = refused_seconds
        self._retry_at = math.inf
        self.connected = False  # of an end that we make ourselves libzmq tells nothing
        try:
            self._socket.disconnect(self._endpoint)
        except zmq.ZMQError as error:
            if error.errno != errno.ENOENT:  # libzmq has left it already
                raise
        self.open()
