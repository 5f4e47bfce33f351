"""Trouble that comes back is said once, then at most once a minute, and once when it is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tierscope.domain.errors import TierscopeError

REPEAT_SECONDS = 60.0

log = logging.getLogger("collectors")


class Complaints:
    """Says each trouble, named by who has it, without flooding the log. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}

    def say(self, who: str, trouble: TierscopeError) -> None:
        """`who` is in trouble, now or still."""
        now = self._monotonic()
        with self._lock:
            said = self._said.get(who)
            if said is not None and now - said < REPEAT_SECONDS:
                return
            self._said[who] = now
        log.warning("%s: %s", who, trouble.one_line())

    def over(self, who: str) -> None:
        """`who` is well; says so if it was in trouble."""
        with self._lock:
            was = self._said.pop(who, None)
        if was is not None:
            log.info("%s: is well again", who)
