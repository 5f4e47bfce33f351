"""L2: the pool all replicas share, as Curvine keeps it."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class PoolCounters:
    """What the pool counts; chunks are files of one size."""

    written: int = 0
    read: int = 0
    refused: int = 0
    expired: int = 0


class Pool:
    """Chunk files on a few workers.

    Curvine does not evict to make room: a worker with less room than one of its blocks refuses new
    files, and files go only when they are older than their time to live, counted from their writing
    and looked at now and then. Reading does not keep a file alive.
    """

    def __init__(
        self,
        *,
        capacity_bytes: float,
        chunk_bytes: int,
        workers: int,
        block_bytes: float,
        ttl_seconds: float | None,
        ttl_check_seconds: float,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.chunk_bytes = chunk_bytes
        self.files_of_worker = [0] * workers
        self.counters = PoolCounters()
        self.written_to = [0] * workers
        self.read_from = [0] * workers
        self.block_bytes = block_bytes
        self.ttl_seconds = ttl_seconds
        self._ttl_check_seconds = ttl_check_seconds
        self._checked = 0
        self._files: OrderedDict[int, tuple[float, int]] = OrderedDict()
        """Key to (written at, worker), oldest first."""

    def __len__(self) -> int:
        return len(self._files)

    @property
    def used_bytes(self) -> int:
        """Bytes in files."""
        return len(self._files) * self.chunk_bytes

    @property
    def worker_capacity_bytes(self) -> float:
        """Bytes one worker offers."""
        return self.capacity_bytes / len(self.files_of_worker)

    def holds(self, key: int) -> bool:
        """Whether a chunk can be read."""
        return key in self._files

    def read(self, key: int) -> None:
        """Read a chunk that is there."""
        self.counters.read += 1
        self.read_from[self._files[key][1]] += 1

    def put(self, key: int, at_seconds: float) -> bool:
        """Write a chunk; False when no worker has room. A chunk that is there is not written again."""
        self.tick(at_seconds)
        if key in self._files:
            return True
        worker = self._roomy_worker(key)
        if worker is None:
            self.counters.refused += 1
            return False
        self._files[key] = (at_seconds, worker)
        self.files_of_worker[worker] += 1
        self.counters.written += 1
        self.written_to[worker] += 1
        return True

    def lose_worker(self) -> None:
        """The last worker goes, with its files and its room; nothing happens where it is the only one."""
        if len(self.files_of_worker) == 1:
            return
        lost = len(self.files_of_worker) - 1
        self.capacity_bytes -= self.worker_capacity_bytes
        self.files_of_worker.pop()
        self._files = OrderedDict(item for item in self._files.items() if item[1][1] != lost)

    def tick(self, at_seconds: float) -> None:
        """Delete what had outlived its time at the last check before now."""
        if self.ttl_seconds is None:
            return
        checks = math.floor(at_seconds / self._ttl_check_seconds)
        if checks == self._checked:
            return
        self._checked = checks
        oldest_allowed = checks * self._ttl_check_seconds - self.ttl_seconds
        while self._files:
            key, (written, worker) = next(iter(self._files.items()))
            if written >= oldest_allowed:
                return
            del self._files[key]
            self.files_of_worker[worker] -= 1
            self.counters.expired += 1

    def _roomy_worker(self, key: int) -> int | None:
        workers = len(self.files_of_worker)
        room = self.worker_capacity_bytes - max(self.block_bytes, self.chunk_bytes)
        for turn in range(workers):
            worker = (key + turn) % workers
            if self.files_of_worker[worker] * self.chunk_bytes <= room:
                return worker
        return None
