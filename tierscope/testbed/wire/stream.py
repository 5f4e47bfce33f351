"""A ZMQ stream as vLLM publishes its KV events: live batches on PUB, missed ones from a ROUTER.

Live: [topic, 8-byte big-endian sequence, payload]. Replay: a DEALER asks ["", start sequence]; the
answers are ["", topic, sequence, payload] for each batch still in the ring, then the end marker
["", "", 8 x FF, ""].
"""

from __future__ import annotations

from collections import deque

import zmq

_END = b"\xff" * 8
_LIVE_HIGH_WATER_MARK = 100_000


class Stream:
    """One publisher's two sockets on loopback; to be used by one thread at a time."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], *, topic: bytes, ring_batches: int) -> None:
        self._topic = topic
        self._ring: deque[tuple[int, bytes]] = deque(maxlen=ring_batches)
        self._next = 0
        self._live = context.socket(zmq.PUB)
        self._live.set_hwm(_LIVE_HIGH_WATER_MARK)
        self.router = context.socket(zmq.ROUTER)
        self.router.set_hwm(0)
        for socket in (self._live, self.router):
            socket.linger = 0
        self.endpoint = _bind(self._live)
        self.replay_endpoint = _bind(self.router)

    @property
    def batches(self) -> int:
        """Batches since the last restart, lost ones included; the next one's sequence number."""
        return self._next

    def publish(self, payload: bytes, *, live: bool = True, keep: bool = True) -> None:
        """Send a batch and keep it for replay; a batch that is neither sent nor kept uses up its number."""
        sequence = self._next
        self._next += 1
        if keep:
            self._ring.append((sequence, payload))
        if live:
            self._live.send_multipart((self._topic, sequence.to_bytes(8, "big"), payload), copy=True)

    def restart(self) -> None:
        """Begin anew at sequence 0 with an empty ring, as a restarted process does."""
        self._next = 0
        self._ring.clear()

    def serve_replay(self) -> None:
        """Answer every replay request that waits; what is no request is ignored."""
        while True:
            try:
                peer, *frames = self.router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if not frames or len(frames[-1]) != 8:
                continue
            start = int.from_bytes(frames[-1], "big")
            for sequence, payload in self._ring:
                if sequence >= start:
                    self.router.send_multipart((peer, b"", self._topic, sequence.to_bytes(8, "big"), payload))
            self.router.send_multipart((peer, b"", b"", _END, b""))

    def close(self) -> None:
        """Close both sockets; nothing unsent is waited for."""
        self._live.close()
        self.router.close()


def _bind(socket: zmq.Socket[bytes]) -> str:
    return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
