"""Sending without raising: what fails is counted by who sends, and told at most once a minute."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

QUIET_SECONDS = 60.0

LIBRARY_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
"""Where the library tells each failed try; it hands on no reason in any other way."""


class Delivery:
    """Tries to send, and says at most once a minute that it does not succeed, and why. For one thread.

    `what` names what is sent, for the log.
    """

    def __init__(self, what: str, endpoint: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._endpoint = endpoint
        self._monotonic = monotonic
        self._failed = 0
        self._reason = "no reason given"
        self._told_seconds: float | None = None
        _listen_first()

    def attempt(self, send: Callable[[], bool]) -> bool:
        """Run `send`, which says whether it was taken; what it raises is a failure too."""
        with _LISTENER.listening() as heard:
            try:
                taken = send()
            except Exception as error:  # the library may raise whatever broke the sending
                log.debug("sending %s failed", self._what, exc_info=True)
                taken = False
                heard.append(repr(error))
        if not taken:
            # the first try says why, the last one that there will be no other
            self._reason = "; ".join(dict.fromkeys([*heard[:1], *heard[-1:]])) or self._reason
            self._tell()
        return taken

    def _tell(self) -> None:
        self._failed += 1
        now = self._monotonic()
        if self._told_seconds is None or now - self._told_seconds >= QUIET_SECONDS:
            self._told_seconds = now
            log.warning(
                "%s were not taken by %s (%d times so far): %s",
                self._what, self._endpoint, self._failed, self._reason,
            )  # fmt: skip


class _Listener(logging.Filter):
    """Keeps what a thread's loggers say while it listens, instead of having it logged."""

    def __init__(self) -> None:
        super().__init__()
        self._of_thread = threading.local()

    @contextmanager
    def listening(self) -> Iterator[list[str]]:
        """Within, what this thread would log through the library goes into the list."""
        heard: list[str] = []
        self._of_thread.heard = heard
        try:
            yield heard
        finally:
            self._of_thread.heard = None

    def filter(self, record: logging.LogRecord) -> bool:
        heard: list[str] | None = getattr(self._of_thread, "heard", None)
        if heard is None:
            return True
        heard.append(record.getMessage())
        return False


_LISTENER = _Listener()
"""One for all: a logger asks each of its filters, and it is the thread that tells who listens."""


def _listen_first() -> None:
    """Ask our filter before the library's own, which swallows what it has logged a moment ago."""
    for name in LIBRARY_LOGGERS:
        filters = logging.getLogger(name).filters
        if _LISTENER not in filters:
            filters.insert(0, _LISTENER)
