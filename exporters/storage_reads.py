"""What the workers of an engine read from L2 for each request, where LMCache is inside the engine.

It stands in for the lookups that LMCache does not tell there: what a request loaded and no worker read from
L2 came from L1. That holds once all workers have told what they read until the request had its load, and
nothing of it was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from exporters.lookups import CLOCK_ALLOWANCE_SECONDS, Wanted
from tierscope.domain.requests import CacheLookup, RequestRecord, TierLoad
from tierscope.domain.tiers import Tier

MOST_REQUESTS = 100_000
"""Requests whose reads are kept; of a request that no engine tells nobody asks for them."""


@dataclass(slots=True)
class StorageRead:
    """One chunk that one worker read, for one of several requests that held it, in the order they came."""

    worker: int
    chunk: int
    tokens: int
    request_ids: tuple[str, ...]
    started_unix_seconds: float
    ended_unix_seconds: float
    size_bytes: int | None = None
    claimed: bool = False


@dataclass(slots=True)
class StorageReads:
    """The reads of one engine's workers by request, the oldest requests forgotten first.

    `name` is the LMCache's. Every worker has a part of each chunk, so a chunk counts once however many read
    it. Not thread-safe: the thread that reads the streams has it to itself.
    """

    name: str
    workers: int = 1
    most_requests: int = MOST_REQUESTS
    chunk_tokens: int | None = None
    changes: int = 0
    """Grows with everything that may settle an admission which waits."""
    tells_misses: bool = False
    _reads: dict[str, list[StorageRead]] = field(default_factory=dict)
    _told_until: dict[int, float] = field(default_factory=dict)
    _lost: set[int] = field(default_factory=set)
    """Workers of which something was lost since they last said until when everything was told."""
    _sure_from: float = float("-inf")

    def read(self, read: StorageRead) -> None:
        """A worker read a chunk."""
        for request_id in read.request_ids:
            known = self._reads.get(request_id)
            if known is None:
                if len(self._reads) >= self.most_requests:
                    del self._reads[next(iter(self._reads))]
                known = self._reads[request_id] = []
            known.append(read)

    def told_until(self, worker: int, unix_seconds: float) -> None:
        """A worker has told every read that ended before this time, but for what was lost."""
        self._told_until[worker] = max(self._told_until.get(worker, unix_seconds), unix_seconds)
        if worker in self._lost:
            self._lost.discard(worker)
            self._sure_from = max(self._sure_from, unix_seconds)
        self.changes += 1

    def lost(self, worker: int) -> None:
        """Reads of a worker were lost."""
        self._lost.add(worker)

    def take(self, wanted: Wanted) -> CacheLookup | None:
        """Return what L1 and L2 had for an admission, once; None if it loaded nothing or nobody knows."""
        if not wanted.external_tokens or not self._is_told(wanted) or self._is_unsure(wanted):
            return None
        reads = self._claim(wanted)
        by_chunk = {read.chunk: read.tokens for read in reads}
        found = wanted.loaded_tokens + self._held_back(wanted)
        return CacheLookup(
            server=self.name,
            ended_unix_seconds=wanted.admitted_unix_seconds,
            hit_tokens=found,
            l1_hit_tokens=max(0, found - sum(by_chunk.values())),
            loads=tuple(map(_load, reads)),
        )

    def cannot_come(self, wanted: Wanted) -> bool:
        """Whether it will never be known what such an admission loaded from where."""
        return self._is_told(wanted) and self._is_unsure(wanted)

    def joined(self, record: RequestRecord, request_id: str) -> None:
        """A record has its lookup; there is nothing to learn from the two."""

    def _is_told(self, wanted: Wanted) -> bool:
        until = min(self._told_until.values()) if len(self._told_until) >= self.workers else float("-inf")
        return until > wanted.ended_unix_seconds + CLOCK_ALLOWANCE_SECONDS

    def _is_unsure(self, wanted: Wanted) -> bool:
        return bool(self._lost) or wanted.admitted_unix_seconds < self._sure_from

    def _claim(self, wanted: Wanted) -> list[StorageRead]:
        """Take a request's reads, of each worker one a chunk: a second one was for another holder."""
        claimed: dict[tuple[int, int], StorageRead] = {}
        rest: list[StorageRead] = []
        until = wanted.ended_unix_seconds + CLOCK_ALLOWANCE_SECONDS
        for read in self._reads.pop(wanted.request_id, ()):
            place = read.worker, read.chunk
            if read.claimed or (place in claimed and len(read.request_ids) > 1):
                continue
            if read.started_unix_seconds > until:
                rest.append(read)  # of a later admission
                continue
            read.claimed = True
            claimed[place] = read
        if rest:
            self._reads[wanted.request_id] = rest
        return list(claimed.values())

    def _held_back(self, wanted: Wanted) -> int:
        """1 where the whole prompt was found: an engine computes its last token all the same."""
        ends_a_chunk = self.chunk_tokens and wanted.loaded_tokens % self.chunk_tokens == 0
        return int(wanted.loaded_tokens + 1 == wanted.prompt_tokens and not ends_a_chunk)


def _load(read: StorageRead) -> TierLoad:
    return TierLoad(Tier.L2, read.ended_unix_seconds, read.started_unix_seconds, 1, read.size_bytes)
