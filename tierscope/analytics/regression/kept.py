"""The latest observations, as they came: what is asked for seldom is put together only then."""

from __future__ import annotations

from collections import deque

import numpy as np

from tierscope.analytics.regression.observations import Observations, joined
from tierscope.domain.trace import FloatArray


class Kept:
    """At least the last `most` requests, in order of time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: deque[Observations] = deque()
        self._requests = 0

    def add(self, part: Observations) -> None:
        """Take the next ones; the oldest parts that are no longer needed go."""
        self._parts.append(part)
        self._requests += len(part.prompt)
        while self._requests - len(self._parts[0].prompt) >= self._most:
            self._requests -= len(self._parts.popleft().prompt)

    def clear(self) -> None:
        """Forget everything."""
        self._parts.clear()
        self._requests = 0

    def times(self) -> FloatArray:
        """When each was: (n,) unix seconds."""
        found: FloatArray = np.concatenate([np.empty(0), *(part.at_unix_seconds for part in self._parts)])
        return found

    def since(self, unix_seconds: float) -> Observations:
        """Those from a moment on."""
        parts = [part for part in self._parts if part.at_unix_seconds[-1] >= unix_seconds]
        found = joined(parts)
        return found.take(found.at_unix_seconds >= unix_seconds)

    def latest(self, requests: int) -> Observations:
        """The last so many, or all where there are fewer."""
        parts, found = [], 0
        for part in reversed(self._parts):
            if found >= requests:
                break
            parts.append(part)
            found += len(part.prompt)
        return joined(parts[::-1]).take(slice(-requests, None))
