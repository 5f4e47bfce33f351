"""Ports that nobody uses at the moment, for what cannot be told to take any."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of loopback that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
