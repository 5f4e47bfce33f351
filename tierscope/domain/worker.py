"""One thread of a process: started once, asked to end, waited for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Worker(ABC):
    """Does its work in a thread of its own, from `start` until it ends by itself or `stop` asks it to.

    A `daemon` may hang in what it reads without keeping its process from ending.
    """

    def __init__(self, name: str, *, daemon: bool = False) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=daemon)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the step it works on."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until it has ended; at once if it never began."""
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stopping` is set."""
