"""The feed's entries of the pool as they travel; the rules are those of `wire.py`."""

from __future__ import annotations

import msgspec

from tierscope.domain.pool import PoolFiles, PoolTraffic, Viewpoint


class PoolTrafficWire(msgspec.Struct, array_like=True, gc=False, tag="pool_traffic"):
    """A `PoolTraffic`."""

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

    @classmethod
    def of(cls, traffic: PoolTraffic) -> PoolTrafficWire:
        """Make it ready to travel."""
        return cls(*(getattr(traffic, name) for name in cls.__struct_fields__))

    def domain(self) -> PoolTraffic:
        """Give back what travelled."""
        return PoolTraffic(*msgspec.structs.astuple(self))


class PoolFilesWire(msgspec.Struct, array_like=True, gc=False, tag="pool_files"):
    """A `PoolFiles`."""

    holder: str
    kind: str
    model: str
    at_unix_seconds: float
    files: int
    size_bytes: int

    @classmethod
    def of(cls, files: PoolFiles) -> PoolFilesWire:
        """Make it ready to travel."""
        return cls(*(getattr(files, name) for name in cls.__struct_fields__))

    def domain(self) -> PoolFiles:
        """Give back what travelled."""
        return PoolFiles(*msgspec.structs.astuple(self))
