"""What the live and the replay path of one reader share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import zmq

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.feed.curve import ClientKey
from tierscope.feed.sockets import Context, Socket


@dataclass(frozen=True, slots=True)
class ReadingEnd:
    """Who reads, with which key; `source` names what is read in logs and errors."""

    source: str
    context: Context
    key: ClientKey | None
    monotonic: Callable[[], float]

    def connect(self, socket: Socket, endpoint: str) -> None:
        """Connect, with a key encrypted. Raises `BadSettings` for an address that is none."""
        if self.key is not None:
            self.key.secure(socket)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            problem = TierscopeError(
                f"{self.source} cannot be read from {endpoint!r}: {error}",
                where=self.source,
                fix="give a ZMQ address to connect to, e.g. tcp://127.0.0.1:5557",
            )
            raise BadSettings([problem]) from error
