"""Errors inside the engine: counted, named in the log ever more rarely, never raised."""

from __future__ import annotations

import logging
import threading

log = logging.getLogger(__name__)


class ErrorCount:
    """Counts what went wrong in the probe. The 1st, 2nd, 4th, 8th … is logged."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, what: str, error: BaseException | str) -> None:
        """Count one error; `what` says what the probe was doing."""
        with self._lock:
            self.count += 1
            count = self.count
        if count & (count - 1) == 0:
            log.warning("the probe could not %s (error %d): %r", what, count, error)
