"""What LMCache inside an engine's worker reads from its L2 and writes there: one record a chunk.

The storage of a worker is asked for chunks by name and is not told for whom. LMCache keeps the chunks that a
request's lookup found until they are retrieved; so a chunk that is read belongs to a request that holds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tierscope_probe.errors import ErrorCount
from tierscope_probe.hashes import low_bytes
from tierscope_probe.records import Draft, Record

STORAGE_RECORDS: dict[str, tuple[str, ...]] = {
    "hello": ("ts", "form", "instance", "worker", "incarnation", "chunk_size", "l2_name", "versions"),
    "read": ("rids", "chunk", "tokens", "bytes", "start", "end"),
    "write": ("chunk", "bytes", "start", "end"),
    "stats": ("ts", "waiting", "asked", "found", "calls", "ns", "dropped", "errors", "sent", "enc_ns"),
}
"""Kind: its fields beside `t`, in the order they are sent."""

MOST_RIDS = 4
"""Requests named for one read; more than one hold the same chunk only while they wait together."""

MOST_HELD = 4096
"""Requests whose chunks are remembered; the rest is looked up anew."""

Held = Mapping[str, Sequence[Any]] | Sequence[Any]
Pins = Callable[[], Iterable[tuple[str, Held]]]
"""Gives LMCache's requests with what their lookups hold: chunks by storage, or as one list."""


def write_record(kind: str, *values: object) -> Record:
    """Return a record of a kind; the values are in the order of its fields."""
    return {"t": kind, **dict(zip(STORAGE_RECORDS[kind], values, strict=True))}


class StorageObserver:
    """Turns the calls of one worker's storage into records; no method raises.

    `spent_ns` and `calls` say how long the storage was kept. `asked` chunks were looked for by name, `found`
    of them were there.
    """

    def __init__(
        self,
        offer: Callable[[Draft], None],
        *,
        pins: Pins,
        tokens_of: Callable[[int], int],
        errors: ErrorCount,
        stopwatch: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._offer = offer
        self._holders = Holders(pins)
        self._tokens_of = tokens_of
        self._errors = errors
        self._stopwatch = stopwatch
        self.spent_ns = self.calls = self.asked = self.found = 0

    def read(self, key: Any, size_bytes: int | None, times: tuple[float, float], rid: str | None) -> None:  # noqa: ANN401  LMCache's key
        """A chunk was read in that time, None bytes where it was not there; `rid` where LMCache names it."""
        began = self._stopwatch()
        try:
            rids = (rid,) if rid is not None else self._holders.of(key.chunk_hash)
            tokens = 0 if size_bytes is None else self._tokens_of(size_bytes)
            values = ("read", list(rids), low_bytes(key.chunk_hash), tokens, size_bytes, *times)
            self._offer((write_record, values))
        except Exception as error:  # noqa: BLE001  an exception here would fail the read
            self._errors.add("read a chunk's reading", error)
        self._took(began)

    def wrote(self, key: Any, size_bytes: int | None, times: tuple[float, float]) -> None:  # noqa: ANN401
        """A chunk was written in that time; None bytes where it could not be."""
        began = self._stopwatch()
        try:
            self._offer((write_record, ("write", low_bytes(key.chunk_hash), size_bytes, *times)))
        except Exception as error:  # noqa: BLE001
            self._errors.add("read a chunk's writing", error)
        self._took(began)

    def looked_for(self, found: bool) -> None:
        """A chunk was looked for."""
        self.asked += 1
        self.found += bool(found)

    def _took(self, began: int) -> None:
        self.spent_ns += self._stopwatch() - began
        self.calls += 1


class Holders:
    """Which requests hold a chunk, in the order of their lookups; each is gone through once."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._held: dict[str, tuple[int, frozenset[int]]] = {}

    def of(self, chunk_hash: int) -> tuple[str, ...]:
        """Return the requests that hold a chunk, the first few of them."""
        found: list[str] = []
        for rid, held in self._pins():
            if chunk_hash in self._chunks(rid, held):
                found.append(rid)
                if len(found) == MOST_RIDS:
                    break
        return tuple(found)

    def _chunks(self, rid: str, held: Held) -> frozenset[int]:
        parts = list(held.values()) if isinstance(held, Mapping) else [held]
        count = sum(map(len, parts))  # a lookup of layers adds to what it holds
        known = self._held.get(rid)
        if known is None or known[0] != count:
            if len(self._held) >= MOST_HELD:
                self._held.clear()
            chunks = frozenset(key.chunk_hash for part in parts for key in part)
            known = self._held[rid] = (count, chunks)
        return known[1]
