"""A Curvine master's pages as the size and use of the shared pool. Pure.

Names like `capacity` stand on masters, workers and FUSE clients alike, and ports moved between releases: what
a page is, is told by its other names. The master's eviction counters are not used: they also count
files that were not deleted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from exporters.documents import read_document
from exporters.exposition import Exposition
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier

LIVE = "live"
LOST = "lost"


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
    ip_addr: str = ""
    web_port: int = 0


class _Directory(msgspec.Struct):
    capacity: int
    fs_used: int
    available: int
    storage_type: str = "unknown"
    failed: bool = False


class _Worker(msgspec.Struct):
    address: _Address
    capacity: int
    fs_used: int
    status: str
    available: int = 0
    storage_map: dict[str, _Directory] = msgspec.field(default_factory=dict)


class _Workers(msgspec.Struct):
    live_workers: list[_Worker]
    """Every registered worker, live or not: what it is stands in its status."""
    lost_workers: list[_Worker]


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of one place or of several together."""

    capacity_bytes: int = 0
    used_bytes: int = 0
    available_bytes: int = 0

    def __add__(self, other: Room) -> Room:
        return Room(
            self.capacity_bytes + other.capacity_bytes,
            self.used_bytes + other.used_bytes,
            self.available_bytes + other.available_bytes,
        )


@dataclass(frozen=True, slots=True)
class WorkerReading:
    """One worker as its master knows it. `by_storage` is of directories that work, by kind in lower case.

    `url` is the base address of its own page; None where the master does not tell one.
    """

    name: str
    status: str
    room: Room
    by_storage: Mapping[str, Room]
    url: str | None

    @property
    def is_live(self) -> bool:
        """Whether new chunks can go there."""
        return self.status == LIVE


@dataclass(frozen=True, slots=True)
class PoolReading:
    """The pool at one moment. Bytes are of live workers; `files` is about the number of chunks.

    `workers` are None where the master's list cannot be had; then `counts` are of its page, and so are the
    bytes, which then hold workers that are being emptied or avoided, too.
    """

    room: Room
    files: int | None
    counts: Mapping[str, int]
    workers: tuple[WorkerReading, ...] | None
    ttl_files: int | None = None
    """Files in the pool that have a TTL, whoever gave it to them."""
    freed_bytes: int | None = None
    """What the master says its eviction freed; not to be believed, see the finding."""

    @property
    def live_workers(self) -> int:
        """Workers that can be used."""
        return self.counts.get(LIVE, 0)

    @property
    def missing_workers(self) -> int:
        """Workers that are registered or were, and cannot be used now."""
        return sum(self.counts.values()) - self.live_workers

    def sample(self, holder: str, at_unix_seconds: float) -> TierSample:
        """Return the reading of L2; `holder` is the pool's name."""
        return TierSample(
            tier=Tier.L2,
            holder=holder,
            at_unix_seconds=at_unix_seconds,
            capacity_bytes=self.room.capacity_bytes,
            used_bytes=self.room.used_bytes,
            used_blocks=self.files,
        )


def role_of(page: Exposition) -> Role:
    """Tell by its names which process a page is of."""
    if page.named("worker_num") or page.named("inode_file_num"):
        return Role.MASTER
    if page.named("write_count") and page.named("total_disks"):
        return Role.WORKER
    return Role.FUSE if page.named("file_handle_num") else Role.UNKNOWN


def require_role(page: Exposition, role: Role, fix: str, *, where: str) -> None:
    """Raise `SourceUnreadable` for a page of another process: ports are shared by releases."""
    found = role_of(page)
    if found is not role:
        raise SourceUnreadable(
            f"the page is of a Curvine process of the kind {found}, not of a {role}", where=where, fix=fix
        )


def is_active(overview: bytes, *, where: str) -> bool:
    """Whether an `/api/overview` is the active master's; raises `SourceUnreadable`."""
    return read_document(overview, _Overview, where=where).master_state == "Active"


def parse_pool(page: Exposition, workers: bytes | None, *, where: str) -> PoolReading:
    """Read the active master's page and `/api/workers`; `where` is its base address.

    Raises `SourceUnreadable` when the page is another process's or a document is not what it should be.
    """
    fix = "give the masters' web ports (9000; 9001 from the release of August 2026 on)"
    require_role(page, Role.MASTER, fix, where=f"{where}/metrics")
    told = None if workers is None else tuple(_workers(workers, where=f"{where}/api/workers"))
    if told is None:
        room, counts = _page_room(page), _page_counts(page)
    else:
        room = sum((worker.room for worker in told if worker.is_live), Room())
        counts = {status: sum(one.status == status for one in told) for status in {w.status for w in told}}
    return PoolReading(
        room=room,
        files=_whole(page, "inode_file_num"),
        counts=counts,
        workers=told,
        ttl_files=_whole(page, "ttl_total_inodes"),
        freed_bytes=_whole(page, "eviction_bytes_freed"),
    )


def _workers(body: bytes, *, where: str) -> Iterator[WorkerReading]:
    listed = read_document(body, _Workers, where=where)
    for worker in listed.live_workers:
        yield _worker(worker, worker.status.lower())
    for worker in listed.lost_workers:
        yield _worker(worker, LOST)


def _worker(worker: _Worker, status: str) -> WorkerReading:
    by_storage: dict[str, Room] = {}
    for directory in worker.storage_map.values():
        if not directory.failed:
            kind = directory.storage_type.lower()
            room = Room(directory.capacity, directory.fs_used, directory.available)
            by_storage[kind] = by_storage.get(kind, Room()) + room
    address = worker.address
    host = address.ip_addr or address.hostname
    bracketed = f"[{host}]" if ":" in host else host
    return WorkerReading(
        name=address.hostname or address.ip_addr or str(address.worker_id),
        status=status,
        room=Room(worker.capacity, worker.fs_used, worker.available),
        by_storage=by_storage,
        url=f"http://{bracketed}:{address.web_port}" if host and address.web_port else None,
    )


def _page_room(page: Exposition) -> Room:
    """What the page says of all workers that are registered."""
    return Room(*(_whole(page, name) or 0 for name in ("capacity", "fs_used", "available")))


def _page_counts(page: Exposition) -> dict[str, int]:
    """Workers by status; a blacklisted or leaving one is not live."""
    return {
        series.labels.get("tag", "unknown"): int(n)
        for series, n in page.named("worker_num").items()
        if n and math.isfinite(n)
    }


def _whole(page: Exposition, name: str) -> int | None:
    value = page.total(name)
    return None if value is None else int(value)
