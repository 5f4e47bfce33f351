"""Ports for what cannot be told to take any, and for what is to find nobody.

Whoever is told a port binds it later, if at all. Until then it must be nobody else's: these lie below those
that the system hands out by itself, and no other test of this machine is given one while this process lives.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOWEST, HIGHEST = 15_000, 32_000
MOST_TRIES = 1000


class _Claims:
    """Which ports this process has, as locks on bytes of a file: they end with it, however it ends."""

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._file = (Path(tempfile.gettempdir()) / f"tierscope-tests-ports-{os.getuid()}").open("ab")
        self._pid = os.getpid()

    def claim(self, port: int) -> bool:
        """Whether it is ours from now on; false for one that was claimed already, here or elsewhere."""
        if self._pid != os.getpid():  # a fork has none of the locks of its parent
            self.__init__()
        if port in self._ours:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self._ours.add(port)
        return True


_CLAIMS = _Claims()


def free_port() -> int:
    """A port of loopback that is free."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports of loopback that are free."""
    for _ in range(MOST_TRIES):
        first = random.SystemRandom().randrange(LOWEST, HIGHEST - count)
        if all(_is_free(port) and _CLAIMS.claim(port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} neighbouring free ports after {MOST_TRIES} tries")


def unused_endpoint() -> str:
    """A ZMQ address of loopback where nobody listens."""
    return f"tcp://127.0.0.1:{free_port()}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
