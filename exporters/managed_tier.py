"""HyperPod's own memory tier on this node: how much it holds back, and whether any cache uses it.

Its daemon publishes no metrics. What can be seen is the shared-memory file it keeps: its size is what is
reserved for it, its pages what was ever written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from exporters.fetch import Fetcher
from exporters.oddities import Finding
from exporters.pages import PageReading
from exporters.pools import ManagedTier
from tierscope.domain.errors import BadInput, SourceUnreadable
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.severity import Severity
from tierscope.domain.units import format_bytes

STAT_BLOCK_BYTES = 512


class ManagedSuspect(StrEnum):
    """What is wrong with the managed tier."""

    UNUSED = "managed_tier_unused"
    """Host memory is held back for the managed tier, and no cache of this node names it as its L2."""


@dataclass(slots=True)
class ManagedTierSource:
    """Looks at the tier's shared-memory file; `tier` is what the caches' readers know of its use."""

    path: str
    tier: ManagedTier
    look: Callable[[str], tuple[int, int]] | None = None
    units: int = 1

    @property
    def source(self) -> SourceId:
        """The tier, by its file."""
        return SourceId(SourceKind.MANAGED_TIER, self.path)

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:  # noqa: ARG002 - no page to fetch
        """Look once; raises `SourceUnreadable` while the file is not there."""
        try:
            reserved_bytes, written_bytes = (self.look or _look)(self.path)
        except OSError as error:
            raise SourceUnreadable(
                f"the managed tier's memory cannot be seen: {error.strerror or error}",
                where=self.path,
                fix="mount the node's shared memory read-only, or leave managed_tier_file out",
            ) from error
        return PageReading(findings=[*self._findings(reserved_bytes, written_bytes)])

    def _findings(self, reserved_bytes: int, written_bytes: int) -> list[Finding]:
        servers = self.tier.used_by_server
        if not reserved_bytes or not servers or any(servers.values()):
            return []
        error = BadInput(
            f"{format_bytes(reserved_bytes)} of host memory are held back for the managed tier, of which "
            f"{format_bytes(written_bytes)} were ever written; it is the L2 of none of the "
            f"{len(servers)} caches of this node",
            where=self.path,
            fix="give the memory to L1: lower InstanceMemoryAllocationPercentage or switch the tier off "
            "(UpdateCluster, TieredStorageConfig), and raise L1 and the pod's memory",
        )
        return [Finding(ManagedSuspect.UNUSED, Severity.WARNING, error)]


def _look(path: str) -> tuple[int, int]:
    """Size of a file and what of it has pages."""
    found = Path(path).stat()
    return found.st_size, found.st_blocks * STAT_BLOCK_BYTES
