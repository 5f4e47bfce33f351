"""Addresses as a process binds them, made into those by which its node's exporter reaches it. Pure."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

ANY = frozenset({"*", "0.0.0.0", "::"})  # noqa: S104  what others bind, not we
"""Hosts that mean every address of the pod."""


LAST_PORT = 65_535


def is_address(host: str | None) -> bool:
    """Whether a pod's address is one; whatever else stood there would be read as part of a URL."""
    try:
        return host is not None and bool(ip_address(host))
    except ValueError:
        return False


def port_of(number: int | None) -> int | None:
    """A port that there can be, else None."""
    return number if number is not None and 0 < number <= LAST_PORT else None


def page(host: str, port: int) -> str:
    """The base address of a page."""
    return f"http://{host}:{port}"


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
    """The address of one rank or worker: its number is added to the port. None where there is no such port.

    >>> shifted("tcp://10.0.1.7:5557", 2)
    'tcp://10.0.1.7:5559'
    """
    if endpoint is None:
        return None
    base, _, port = endpoint.rpartition(":")
    number = port_of(int(port) + by)
    return None if number is None else f"{base}:{number}"
