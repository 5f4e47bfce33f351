"""A stream with its faults: batches that are late, dropped live, or lost for good."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tierscope.testbed.config import StreamFaults
from tierscope.testbed.wire.stream import Stream


class Channel:
    """Holds batches until they are due, then publishes them as the faults of that moment allow."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._held: deque[tuple[float, bytes, Callable[[], None]]] = deque()
        self._count = 0

    @property
    def empty(self) -> bool:
        """Whether every batch went out."""
        return not self._held

    def hold(self, payload: bytes, *, until_wall_seconds: float, sent: Callable[[], None]) -> None:
        """Queue a batch for a wall time; `sent` is called unless it is lost for good."""
        self._held.append((until_wall_seconds, payload, sent))

    def send_due(self, wall_seconds: float, faults: StreamFaults) -> None:
        """Publish what was held long enough."""
        while self._held and self._held[0][0] <= wall_seconds:
            _, payload, sent = self._held.popleft()
            self._count += 1
            lost = bool(faults.lose_every) and self._count % faults.lose_every == 0
            silent = bool(faults.drop_live_every) and self._count % faults.drop_live_every == 0
            self.stream.publish(payload, live=not (lost or silent), keep=not lost)
            if not lost:
                sent()

    def restart(self) -> None:
        """Drop what did not go out yet, and begin at sequence 0."""
        self._held.clear()
        self.stream.restart()
