"""What is done with a store beside filling it and asking it, by its owner or through its collector."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from tierscope.domain.selection import Selection
from tierscope.storage.serving import Caller


class Upkeep(Protocol):
    """What a store can be told to do while it is in use. Raises `StoreUnusable` where it cannot."""

    def backup(self, target: str) -> int:
        """Write all of the store, as of one moment, into a new file (an absolute path); return its bytes."""
        ...

    def to_parquet(self, folder: str) -> dict[str, int]:
        """Write every table, all as of one moment, as Parquet into a new folder (an absolute path).

        Returns rows by table.
        """
        ...

    def forget(self, selection: Selection) -> dict[str, int]:
        """Delete what belongs to the selection, and nothing else; return the rows deleted, by table."""
        ...


class RemoteUpkeep:
    """`Upkeep` of the store that a collector owns, through its local socket; paths are its machine's."""

    def __init__(self, path: str | Path, *, timeout_seconds: float = 3600.0) -> None:
        self._caller = Caller(path, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """Free the sockets."""
        self._caller.close()

    def backup(self, target: str) -> int:
        """See `Upkeep`."""
        return cast("int", self._caller.ask("backup", target))

    def to_parquet(self, folder: str) -> dict[str, int]:
        """See `Upkeep`."""
        return cast("dict[str, int]", self._caller.ask("to_parquet", folder))

    def forget(self, selection: Selection) -> dict[str, int]:
        """See `Upkeep`."""
        return cast("dict[str, int]", self._caller.ask("forget", selection))
