"""What an exporter tells of the shared pool besides its size: whose files fill it, and what moves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Viewpoint(StrEnum):
    """Who counted what moved between a pool and its clients. The same bytes pass each of them: never add."""

    WORKER = "worker"
    """A process that holds blocks. Blind to short-circuit reads, which open its files directly."""
    FUSE = "fuse"
    """One FUSE client: all that its node's mounts read and wrote."""
    CLIENTS = "clients"
    """Every client together, as they report to the master."""


@dataclass(frozen=True, slots=True)
class PoolTraffic:
    """What one process counted between two readings. Never negative; None where it does not count that.

    `holder` is the pool, `process` the worker's host or the client's address, empty for all clients.
    Seconds are the time its reads and writes took, added up; they overlap. A local open is a
    short-circuit one, whose bytes the worker does not see; a remote open goes over the network.
    """

    holder: str
    seen_by: Viewpoint
    process: str
    since_unix_seconds: float
    at_unix_seconds: float
    read_bytes: int | None = None
    written_bytes: int | None = None
    read_seconds: float | None = None
    write_seconds: float | None = None
    reads: int | None = None
    writes: int | None = None
    local_opens: int | None = None
    remote_opens: int | None = None


@dataclass(frozen=True, slots=True)
class PoolFiles:
    """The files of one kind and model in a pool's directory, as of one complete scan.

    `kind` is chunk, empty, temp, dead_temp, metadata or foreign. Those of one scan have one time and add up
    to the directory. `model` is as the files name it; `other` beyond the largest, `unknown` where they name
    none.
    """

    holder: str
    kind: str
    model: str
    at_unix_seconds: float
    files: int
    size_bytes: int
