"""Ports that tests are given are theirs until they bind them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ports

CLAIM = "import sys; from tests import ports; print(ports._CLAIMS.claim(int(sys.argv[1])))"


def claimed_elsewhere(port):
    """Whether another process is given it."""
    run = subprocess.run(
        [sys.executable, "-c", CLAIM, str(port)], capture_output=True, text=True, check=True,
        cwd=Path(ports.__file__).parents[1],
    )  # fmt: skip
    return run.stdout == "True\n"


def test_a_port_is_given_once_on_a_machine():
    """Neither here nor to another process; and the system gives it to nobody who asks for any."""
    port = ports.free_port()
    lowest_of_the_systems = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert not ports._CLAIMS.claim(port)
    assert not claimed_elsewhere(port)
    assert port < lowest_of_the_systems
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", port))


def test_neighbours_are_all_free(monkeypatch):
    """Of five in a row with one that is taken none is given."""
    first = ports.free_ports(5)
    assert [ports._CLAIMS.claim(port) for port in range(first, first + 5)] == [False] * 5

    monkeypatch.setattr(ports, "_is_free", lambda port: port % 2 == 0)
    monkeypatch.setattr(ports, "MOST_TRIES", 20)
    assert ports.free_port() % 2 == 0
    with pytest.raises(AssertionError, match="no 2 neighbouring"):
        ports.free_ports(2)
