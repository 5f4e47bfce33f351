"""What sockets are called as types, and how they are waited on and emptied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import zmq

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]

BURST_MESSAGES = 1024
BURST_BYTES = 16 * 1024 * 1024
"""Most that one look at a socket takes from it, so that one answer of a reader stays small."""


def poll(sockets: Sequence[Socket], timeout_seconds: float) -> None:
    """Wait until one of the sockets can be read."""
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    poller.poll(max(0, math.ceil(timeout_seconds * 1000)))


def burst(socket: Socket) -> Iterator[list[bytes]]:
    """Yield the multipart messages that are there, up to a bound."""
    size_bytes = 0
    for _ in range(BURST_MESSAGES):
        if size_bytes >= BURST_BYTES:
            return
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        size_bytes += sum(map(len, frames))
        yield frames
