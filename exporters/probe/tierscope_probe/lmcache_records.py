"""The records of an LMCache server: kinds, fields and units, and how keys become chunks.

`RECORDS` and `FIELDS` are the whole wire; the README's tables say the same, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tierscope_probe.hashes import low_bytes
from tierscope_probe.records import Record, digest

_OBJECTS = ("model", "salt", "keys")

RECORDS: dict[str, tuple[str, ...]] = {
    "hello": ("ts", "form", "server", "incarnation", "chunk_size", "hash_algorithm", "missing", "versions"),
    "lookup": (
        *("rid", "k", "model", "salt", "start", "end", "prompt_tokens", "requested_tokens", "hit_tokens"),
        *("l1_hit_tokens", "l2_hit_tokens", "l1_hit_keys", "l2_hit_keys", "early_exit", "hashes"),
    ),
    "transfer": ("rid", "direction", "engine", "model", "keys", "tokens", "bytes", "start", "end"),
    "load": (
        *("rid", "request", "adapter", "task", "l2_name", "keys", "loaded_keys", "failed_keys", "bytes"),
        *("start", "end"),
    ),
    "store": (
        *("adapter", "task", "l2_name", "keys", "stored_keys", "failed_keys", "bytes", "written_bytes"),
        *("start", "end"),
    ),
    "l1_stored": ("ts", "source", "tag", *_OBJECTS, "bytes", "chunks"),
    "l1_evicted": ("ts", "reason", "tag", *_OBJECTS, "bytes", "chunks"),
    "l1_alloc_failed": ("ts", "during", *_OBJECTS, "chunks"),
    "l1_read_failed": ("ts", "during", "reason", *_OBJECTS, "chunks"),
    "store_refused": ("ts", "rid", "reason", *_OBJECTS, "chunks"),
    "l2_stored": ("ts", "l2_name", "shared", *_OBJECTS, "bytes", "chunks"),
    "l2_removed": ("ts", "l2_name", "shared", *_OBJECTS, "chunks"),
    "l2_evicted": ("ts", "keys"),
    "l2_failed": ("ts", "reason", *_OBJECTS, "chunks"),
    "stats": (
        *("ts", "events", "ns", "dropped", "errors", "sent", "enc_ns", "bus_dropped", "bus_exceptions"),
        *("bus_queue", "bus_lag_s"),
    ),
}
"""Kind: its fields beside `t`, in the order they are sent."""

FIELDS: dict[str, str] = {
    "ts": "unix seconds",
    "form": "text",
    "server": "text",
    "incarnation": "number",
    "chunk_size": "tokens",
    "hash_algorithm": "text",
    "missing": "texts",
    "versions": "texts",
    "rid": "text",
    "k": "count",
    "model": "text",
    "salt": "digest",
    "start": "unix seconds",
    "end": "unix seconds",
    "prompt_tokens": "tokens",
    "requested_tokens": "tokens",
    "hit_tokens": "tokens",
    "l1_hit_tokens": "tokens",
    "l2_hit_tokens": "tokens",
    "l1_hit_keys": "keys",
    "l2_hit_keys": "keys",
    "early_exit": "text",
    "hashes": "chain",
    "direction": "text",
    "engine": "number",
    "keys": "keys",
    "tokens": "tokens",
    "bytes": "bytes",
    "request": "number",
    "adapter": "number",
    "task": "number",
    "l2_name": "text",
    "loaded_keys": "keys",
    "stored_keys": "keys",
    "failed_keys": "keys",
    "written_bytes": "bytes",
    "source": "text",
    "tag": "text",
    "reason": "text",
    "during": "text",
    "shared": "truth",
    "chunks": "hashes",
    "events": "events",
    "ns": "nanoseconds",
    "dropped": "events",
    "errors": "errors",
    "sent": "records",
    "enc_ns": "nanoseconds",
    "bus_dropped": "events",
    "bus_exceptions": "exceptions",
    "bus_queue": "events",
    "bus_lag_s": "seconds",
}
"""Field: the unit of its value, the same in every record."""


class BusEvent(Protocol):
    """What the probe reads of an event of LMCache's bus."""

    timestamp: float
    metadata: Mapping[str, Any]
    session_id: str


class ObjectKey(Protocol):
    """The name of one object: a chunk has one for each KV rank and object group."""

    chunk_hash: bytes
    model_name: str
    cache_salt: str


@dataclass
class Objects:
    """The keys of an event that belong to one model and one salt.

    `hashes` has one entry a key, so a chunk is in it once for each rank and object group.
    """

    model: str
    salt: str
    hashes: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def chunks(self) -> list[bytes]:
        """Return each chunk once, in the order of its first key."""
        return list(dict.fromkeys(self.hashes))


def objects_of(keys: Iterable[ObjectKey], sizes_bytes: Iterable[int] = ()) -> list[Objects]:
    """Part keys by model and salt; `sizes_bytes`, where known, has one entry a key."""
    parts: dict[tuple[str, str], Objects] = {}
    sizes = iter(sizes_bytes)
    for key in keys:
        name = (key.model_name, key.cache_salt)
        part = parts.get(name)
        if part is None:
            part = parts[name] = Objects(*name)
        part.hashes.append(low_bytes(key.chunk_hash))
        part.size_bytes += next(sizes, 0)
    return list(parts.values())


class Writer:
    """Writes records with exactly the fields of `RECORDS`. `salt_key` is mixed into the digests of salts."""

    def __init__(self, salt_key: bytes = b"") -> None:
        self._salt_key = salt_key
        self._digests: dict[str, str | None] = {"": None}

    def write(self, kind: str, *values: object) -> Record:
        """Return a record of a kind; the values are in the order of its fields."""
        return {"t": kind, **dict(zip(RECORDS[kind], values, strict=True))}

    def salt(self, text: str) -> str | None:
        """Return the digest of a cache salt; None for no salt."""
        if text not in self._digests:
            if len(self._digests) > 10_000:
                self._digests = {"": None}
            self._digests[text] = digest(text, self._salt_key)
        return self._digests[text]

    def objects(
        self,
        kind: str,
        before: Sequence[object],
        keys: Iterable[ObjectKey],
        sizes_bytes: Iterable[int] | None = None,
    ) -> list[Record]:
        """Return a record for each model and salt among the keys.

        `before` are the values of the fields before these. With `sizes_bytes` the records have `bytes`.
        """
        return [
            self.write(
                kind,
                *before,
                part.model,
                self.salt(part.salt),
                len(part.hashes),
                *(() if sizes_bytes is None else (part.size_bytes,)),
                part.chunks(),
            )
            for part in objects_of(keys, sizes_bytes or ())
        ]
