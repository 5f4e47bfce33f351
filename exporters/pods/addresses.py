"""Addresses as a process binds them, made into those by which its node's exporter reaches it. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

ANY = frozenset({"*", "0.0.0.0", "::"})  # noqa: S104  what others bind, not we
"""Hosts that mean every address of the pod."""


def bracketed(host: str) -> str:
    """An address as it stands before a port.

    >>> bracketed("10.0.1.7"), bracketed("fd00::7")
    ('10.0.1.7', '[fd00::7]')
    """
    return f"[{host}]" if ":" in host else host


def reached(endpoint: str | None, host: str) -> str | None:
    """Where an endpoint that a pod binds is reached at its address; None where it is not.

    >>> reached("tcp://*:5557", "10.0.1.7"), reached("tcp://127.0.0.1:5557", "10.0.1.7")
    ('tcp://10.0.1.7:5557', None)
    """
    if endpoint is None:
        return None
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme != "tcp" or not port or (parts.hostname or "") not in ANY | {host.strip("[]")}:
        return None
    return f"tcp://{host}:{port}"


def shifted(endpoint: str | None, by: int) -> str | None:
    """The address of one rank or worker: its number is added to the port.

    >>> shifted("tcp://10.0.1.7:5557", 2)
    'tcp://10.0.1.7:5559'
    """
    if endpoint is None:
        return None
    base, _, port = endpoint.rpartition(":")
    return f"{base}:{int(port) + by}"
