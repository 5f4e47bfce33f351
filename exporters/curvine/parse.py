"""A Curvine master's pages as the size and use of the shared pool. Pure.

Names like `capacity` stand on masters, workers and FUSE clients alike, and ports moved between releases: what
a page is, is told by its other names. The master's eviction counters are not used: they also count
files that were not deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from exporters.documents import read_document
from exporters.exposition import Exposition
from exporters.oddities import Oddity
from tierscope.domain.errors import BadInput, SourceUnreadable
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier


class Role(StrEnum):
    """What process a Curvine page is of."""

    MASTER = "master"
    WORKER = "worker"
    FUSE = "fuse"
    UNKNOWN = "unknown"


class _Overview(msgspec.Struct):
    master_state: str


class _Address(msgspec.Struct):
    worker_id: int
    hostname: str = ""


class _Worker(msgspec.Struct):
    address: _Address
    capacity: int
    fs_used: int
    status: str


class _Workers(msgspec.Struct):
    live_workers: list[_Worker]
    """Every registered worker, live or not: what it is stands in its status."""
    lost_workers: list[_Worker]


@dataclass(frozen=True, slots=True)
class PoolReading:
    """The pool at one moment. Bytes are of live workers; `files` is about the number of chunks.

    `lost_workers` names those that are registered or were, and cannot be used now.
    """

    capacity_bytes: int
    used_bytes: int
    files: int | None
    live_workers: int
    lost_workers: tuple[str, ...]

    def sample(self, holder: str, at_unix_seconds: float) -> TierSample:
        """Return the reading of L2; `holder` is the pool's name."""
        return TierSample(
            tier=Tier.L2,
            holder=holder,
            at_unix_seconds=at_unix_seconds,
            capacity_bytes=self.capacity_bytes,
            used_bytes=self.used_bytes,
            used_blocks=self.files,
        )

    def oddities(self, where: str) -> tuple[Oddity, ...]:
        """What a person should know of an incomplete reading: which workers are not in it."""
        if not self.lost_workers:
            return ()
        error = BadInput(
            f"the pool's size is of {self.live_workers} workers of "
            f"{self.live_workers + len(self.lost_workers)}; missing: {', '.join(self.lost_workers)}",
            where=where,
            fix="bring the workers back, or remove them from the cluster",
        )
        return (Oddity("worker not live", error),)


def role_of(page: Exposition) -> Role:
    """Tell by its names which process a page is of."""
    if page.named("worker_num") or page.named("inode_file_num"):
        return Role.MASTER
    if page.named("write_count") and page.named("total_disks"):
        return Role.WORKER
    return Role.FUSE if page.named("file_handle_num") else Role.UNKNOWN


def is_active(overview: bytes, *, where: str) -> bool:
    """Whether an `/api/overview` is the active master's; raises `SourceUnreadable`."""
    return read_document(overview, _Overview, where=where).master_state == "Active"


def parse_pool(page: Exposition, workers: bytes, *, where: str) -> PoolReading:
    """Read the active master's page and `/api/workers`; `where` is its base address.

    Raises `SourceUnreadable` when the page is another process's or a document is not what it should be.
    """
    role = role_of(page)
    if role is not Role.MASTER:
        raise SourceUnreadable(
            f"the page is of a Curvine process of the kind {role}, not of a master",
            where=f"{where}/metrics",
            fix="give the masters' web ports (9000; 9001 from the release of August 2026 on)",
        )
    listed = read_document(workers, _Workers, where=f"{where}/api/workers")
    live = [worker for worker in listed.live_workers if worker.status == "Live"]
    lost = [worker for worker in listed.live_workers if worker.status != "Live"] + listed.lost_workers
    files = page.total("inode_file_num")
    return PoolReading(
        capacity_bytes=sum(worker.capacity for worker in live),
        used_bytes=sum(worker.fs_used for worker in live),
        files=None if files is None else int(files),
        live_workers=len(live),
        lost_workers=tuple(f"{w.address.hostname or w.address.worker_id} ({w.status})" for w in lost),
    )
