"""One thread of a process: started once, asked to end, waited for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

PATIENCE_SECONDS = 5.0
"""With those who compute: an end is to take seconds, and the next start computes it again."""


class Worker(ABC):
    """Does its work in a thread of its own, from `start` until it ends by itself or `stop` asks it to.

    It does not keep its process from ending: whoever wants its work done joins it. One that may hang in what
    it asks, or computes for minutes, is waited for no longer than `patience_seconds`, and then left behind.
    """

    def __init__(self, name: str, *, patience_seconds: float | None = None) -> None:
        self._stopping = threading.Event()
        self._patience_seconds = patience_seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the step it works on."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until it has ended, or patience has; not at all if it never began."""
        if self._thread.ident is not None:
            self._thread.join(self._patience_seconds)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stopping` is set."""
