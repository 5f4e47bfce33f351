"""What comes into L1 and what leaves it, and why.

LMCache reports every departure by one and the same event. What tells them apart is what it publishes around:

- `after_read`: a chunk loaded from L2 for one read is dropped by the end of that read. The L1 manager
  publishes the read's end and the departure in one critical section, so the departure is the next one of
  that manager (`tag`).
- `capacity`: the eviction loop deletes keys, and at once publishes its triggered tick. So the last departure
  right before such a tick is its own.
- else somebody asked for it: `clear` when nothing is left in that manager, `delete` otherwise.

A departure waits for the next tick, at most a few seconds, and what arrives or leaves after it waits behind
it, so the order is kept. `unknown` is a departure whose tick never came.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tierscope_probe.lmcache_records import ObjectKey, Objects, Writer, objects_of
from tierscope_probe.records import Record

HELD_SECONDS = 5.0
"""The eviction loop ticks each second."""
EVICTION_SECONDS = 0.25
"""Between an eviction and its tick, within one round of that loop; about a millisecond where it was seen."""
MOST_CHUNKS = 4_000_000


@dataclass
class _Held:
    """Records in the order of their events; a departure without a reason has a `guess` of it."""

    at: float
    records: list[Record]
    guess: str | None


class L1Contents:
    """Counts the keys of every chunk in L1: a chunk arrives with its first key and leaves with its last."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._keys: dict[tuple[str, str, str, bytes], int] = {}
        self._resident_keys: dict[str, int] = {}
        self._read: dict[str, Collection[ObjectKey]] = {}
        self._held: list[_Held] = []

    def arrived(
        self, at: float, tag: str, keys: Collection[ObjectKey], meta: Sequence[Any], source: str
    ) -> list[Record]:
        """Keys became readable, written by an engine (`store`) or loaded from L2 (`load`)."""
        records = []
        for part in objects_of(keys, (each.size_bytes for each in meta)):
            chunks = [chunk for chunk in part.hashes if self._count(tag, part, chunk, 1) == 1]
            records.append(self._record("l1_stored", at, source, tag, part, chunks))
        self._resident_keys[tag] = self._resident_keys.get(tag, 0) + len(keys)
        if len(self._keys) > MOST_CHUNKS:
            self._keys.clear()
        return self._in_order(at, records)

    def read_ended(self, tag: str, keys: Collection[ObjectKey]) -> None:
        """Keys were read; the manager's next departure is that of those it kept for this read only."""
        self._read[tag] = keys

    def left(self, at: float, tag: str, keys: Collection[ObjectKey], meta: Sequence[Any]) -> list[Record]:
        """Keys are gone."""
        read = self._read.pop(tag, None)
        after_read = read is not None and _hashes(keys) <= _hashes(read)
        if after_read and not keys:
            return []
        left = max(0, self._resident_keys.get(tag, 0) - len(keys))
        self._resident_keys[tag] = left
        records = []
        for part in objects_of(keys, (each.size_bytes for each in meta)):
            gone = dict.fromkeys(chunk for chunk in part.hashes if self._count(tag, part, chunk, -1) == 0)
            records.append(self._record("l1_evicted", at, "after_read", tag, part, list(gone)))
        if after_read:
            return self._in_order(at, records)
        self._held.append(_Held(at, records, "delete" if left else "clear"))
        return []

    def ticked(self, at: float, triggered: bool) -> list[Record]:
        """The eviction loop went round once; `triggered`: it evicted, if it found anything to evict."""
        newest = next((held for held in reversed(self._held) if held.guess is not None), None)
        if triggered and newest is not None and at - newest.at <= EVICTION_SECONDS:
            newest.guess = "capacity"
        return self._release()

    def overdue(self, now: float, patience_seconds: float = HELD_SECONDS) -> list[Record]:
        """Return what waited for a tick that did not come."""
        if not self._held or now - self._held[0].at < patience_seconds:
            return []
        for held in self._held:
            held.guess = held.guess and "unknown"
        return self._release()

    def _in_order(self, at: float, records: list[Record]) -> list[Record]:
        if not self._held:
            return records
        self._held.append(_Held(at, records, None))
        return []

    def _release(self) -> list[Record]:
        released = []
        for held in self._held:
            if held.guess is not None:
                for record in held.records:
                    record["reason"] = held.guess
            released += held.records
        self._held = []
        return released

    def _count(self, tag: str, part: Objects, chunk: bytes, change: int) -> int:
        name = (tag, part.model, part.salt, chunk)
        count = max(0, self._keys.get(name, 0) + change)
        if count:
            self._keys[name] = count
        else:
            self._keys.pop(name, None)
        return count

    def _record(self, kind: str, at: float, why: str, tag: str, part: Objects, chunks: list[bytes]) -> Record:
        salt = self._writer.salt(part.salt)
        return self._writer.write(
            kind, at, why, tag, part.model, salt, len(part.hashes), part.size_bytes, chunks
        )


def _hashes(keys: Collection[ObjectKey]) -> set[bytes]:
    return {key.chunk_hash for key in keys}
