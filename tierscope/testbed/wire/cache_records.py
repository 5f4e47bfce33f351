"""The records of the probe in an LMCache server, field by field as the real one sends them.

The server is one whose engines copy by themselves, so there is no `transfer`. Chunks count once: one KV
rank, one object group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.l1 import Lookup
from tierscope.testbed.wire.records import Record, Value

_EVENT_NANOSECONDS = 400
_ENCODE_NANOSECONDS = 4_000


class CacheRecordWriter:
    """Watches one server's L1 and writes records; `epoch_unix_seconds` is the unix time of virtual 0.

    A load from L2 takes as long as the configuration says, without noise.
    """

    def __init__(
        self,
        put: Callable[[Record], None],
        config: TestbedConfig,
        *,
        server: str,
        epoch_unix_seconds: float,
        stats_seconds: float = 10.0,
    ) -> None:
        self._put = put
        self._server = server
        self._incarnation = config.seed
        self._epoch = epoch_unix_seconds
        self._model = config.model
        self._chunk_tokens = config.tokens_per_chunk
        self._chunk_bytes = config.chunk_bytes
        self._l2_seconds_per_chunk = (
            config.service.l2_seconds_per_chunk + config.chunk_bytes / config.service.l2_bytes_per_second
        )
        self._stats_seconds = stats_seconds
        self._stats_due_seconds = 0.0
        self._tasks = self._sent = 0

    def hello(self, at_seconds: float) -> None:
        """The probe is in."""
        self._write(
            "hello",
            {
                "ts": self._epoch + at_seconds,
                "form": "lmcache_mp",
                "server": self._server,
                "incarnation": self._incarnation,
                "chunk_size": self._chunk_tokens,
                "hash_algorithm": "blake3",
                "missing": [],
                "versions": {"lmcache": "0.5.6"},
            },
        )

    def looked_up(
        self, request_id: str, number: int, chunks: Sequence[int], lookup: Lookup, at_seconds: float
    ) -> None:
        """A lookup was answered; what only L2 had is on its way."""
        at, tokens = self._epoch + at_seconds, self._chunk_tokens
        if lookup.loaded:
            self._load(request_id, len(lookup.loaded), at)
        self._write(
            "lookup",
            {
                "rid": request_id,
                "k": number,
                "model": self._model,
                "salt": None,
                "start": at,
                "end": at,
                "prompt_tokens": len(chunks) * tokens,
                "requested_tokens": len(chunks) * tokens,
                "hit_tokens": lookup.hit * tokens,
                "l1_hit_tokens": lookup.l1 * tokens,
                "l2_hit_tokens": (lookup.hit - lookup.l1) * tokens,
                "l1_hit_keys": len(lookup.pinned),
                "l2_hit_keys": len(lookup.loaded),
                "early_exit": "",
                "hashes": _bytes(chunks),
            },
        )

    def stored(self, chunks: Sequence[int], source: str, at_seconds: float) -> None:
        """Chunks came into L1."""
        self._chunks("l1_stored", {"source": source, "tag": "_default"}, chunks, at_seconds, sized=True)

    def left(self, chunks: Sequence[int], reason: str, at_seconds: float) -> None:
        """Chunks left L1."""
        self._chunks("l1_evicted", {"reason": reason, "tag": "_default"}, chunks, at_seconds, sized=True)

    def refused(self, chunks: Sequence[int], at_seconds: float) -> None:
        """A store was answered, and L1 kept nothing of it."""
        self._chunks("l1_alloc_failed", {"during": "l1_store"}, chunks, at_seconds)
        self._chunks("store_refused", {"rid": None, "reason": "l1_full"}, chunks, at_seconds)

    def not_loaded(self, chunks: Sequence[int], at_seconds: float) -> None:
        """L1 had no room for what L2 had."""
        self._chunks("l1_alloc_failed", {"during": "l2_prefetch"}, chunks, at_seconds)
        self._chunks("l2_failed", {"reason": "l1_oom"}, chunks, at_seconds)

    def wrote_back(
        self, chunks: Sequence[int], new: Sequence[int], completed: int, at_seconds: float
    ) -> None:
        """A task to L2 ended: of these chunks it has `completed`, and wrote the `new` ones."""
        at = self._epoch + at_seconds
        if new:
            self._chunks("l2_stored", {"l2_name": "fs", "shared": True}, new, at_seconds, sized=True)
        self._tasks += 1
        self._write(
            "store",
            {
                "adapter": 0,
                "task": self._tasks,
                "l2_name": "fs",
                "keys": len(chunks),
                "stored_keys": completed,
                "failed_keys": len(chunks) - completed,
                "bytes": len(chunks) * self._chunk_bytes,
                "written_bytes": len(new) * self._chunk_bytes,
                "start": at,
                "end": at + len(new) * self._l2_seconds_per_chunk,
            },
        )

    def tick(self, at_seconds: float) -> None:
        """Say how the probe does, now and then."""
        if at_seconds < self._stats_due_seconds:
            return
        self._stats_due_seconds = at_seconds + self._stats_seconds
        self._write(
            "stats",
            {
                "ts": self._epoch + at_seconds,
                "events": self._sent,
                "ns": self._sent * _EVENT_NANOSECONDS,
                "dropped": 0,
                "errors": 0,
                "sent": self._sent,
                "enc_ns": self._sent * _ENCODE_NANOSECONDS,
                "bus_dropped": 0,
                "bus_exceptions": 0,
                "bus_queue": 0,
                "bus_lag_s": 0.0,
            },
        )

    def _load(self, request_id: str, chunks: int, at: float) -> None:
        self._tasks += 1
        self._write(
            "load",
            {
                "rid": request_id,
                "request": self._tasks,
                "adapter": 0,
                "task": self._tasks,
                "l2_name": "fs",
                "keys": chunks,
                "loaded_keys": chunks,
                "failed_keys": 0,
                "bytes": chunks * self._chunk_bytes,
                "start": at,
                "end": at + chunks * self._l2_seconds_per_chunk,
            },
        )

    def _chunks(
        self, kind: str, before: Record, chunks: Sequence[int], at_seconds: float, *, sized: bool = False
    ) -> None:
        """Write a record about chunks; those about memory say its bytes too."""
        size: Record = {"bytes": len(chunks) * self._chunk_bytes} if sized else {}
        objects: Record = {"model": self._model, "salt": None, "keys": len(chunks)}
        self._write(
            kind,
            {"ts": self._epoch + at_seconds, **before, **objects, **size, "chunks": _bytes(chunks)},
        )

    def _write(self, kind: str, fields: dict[str, Value]) -> None:
        self._put({"t": kind, **fields})
        self._sent += 1


def _bytes(chunks: Sequence[int]) -> list[bytes]:
    return [chunk.to_bytes(8, "big") for chunk in chunks]
