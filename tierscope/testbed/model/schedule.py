"""Virtual time: things to do, in the order of their times and then of their asking."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Schedule:
    """A queue of calls, each at a virtual second."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self._asked = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something at a time, or now if that is past."""
        self._asked += 1
        heapq.heappush(self._queue, (max(seconds, self.now_seconds), self._asked, call))

    def run_until(self, seconds: float) -> None:
        """Make every call that is due at or before a time; the clock then shows that time."""
        queue = self._queue
        while queue and queue[0][0] <= seconds:
            self.now_seconds, _, call = heapq.heappop(queue)
            call()
        self.now_seconds = max(self.now_seconds, seconds)

    def run_out(self) -> None:
        """Make every call there is, whenever it is due; the clock shows the last one's time."""
        while self._queue:
            self.run_until(self._queue[0][0])
