"""Ports for what cannot be told to take any, and for what is to find nobody.

Whoever is told a port binds it later, if at all. Until then it must be nobody else's: these lie apart from
those that the system hands out by itself, where it leaves room for that, and no other test of this machine is
given one while this process lives.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import NamedTuple

SYSTEMS_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
SYSTEMS_BY_STANDARD = (49_152, 65_535)
"""What a system that does not tell its range hands out: the dynamic ports of RFC 6335."""
LOWEST_UNPRIVILEGED, LOWEST, HIGHEST = 1_024, 15_000, 65_535
"""Below `LOWEST` are those of many servers, which we only take where there is no other room."""
ENOUGH = 1_000
MOST_TRIES = 1000


class Given(NamedTuple):
    """Which ports tests are given, and whether the system may hand out one of them meanwhile."""

    ports: range
    shared: bool


def systems_range() -> tuple[int, int]:
    """The lowest and the highest port that the system hands out by itself."""
    if not SYSTEMS_RANGE.exists():
        return SYSTEMS_BY_STANDARD
    lowest, highest = map(int, SYSTEMS_RANGE.read_text().split())
    return lowest, highest


def ports_beside(lowest: int, highest: int) -> Given:
    """Ports apart from the system's, below if there is room; any where it hands out nearly all."""
    below = range(LOWEST, lowest)
    above = range(highest + 1, HIGHEST + 1)
    far_below = range(LOWEST_UNPRIVILEGED, lowest)
    for ports in (below, above, far_below):
        if len(ports) >= ENOUGH:
            return Given(ports, shared=False)
    return Given(range(LOWEST, HIGHEST + 1), shared=True)


GIVEN = ports_beside(*systems_range())


class _Claims:
    """Which ports this process has, as locks on bytes of a file: they end with it, however it ends."""

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._file = (Path(tempfile.gettempdir()) / f"tierscope-tests-ports-{os.getuid()}").open("ab")
        atexit.register(self._file.close)
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
        first = random.SystemRandom().randrange(GIVEN.ports.start, GIVEN.ports.stop - count + 1)
        if all(_is_free(port) and _CLAIMS.claim(port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} neighbouring free ports after {MOST_TRIES} tries")


def said_of_sharing(given: Given = GIVEN) -> list[str]:
    """What a run is told at its end; nothing where ports lie apart."""
    if not given.shared:
        return []
    return [f"ports: {SYSTEMS_RANGE} leaves no {ENOUGH} to tests, so some may be taken before they are bound"]


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
