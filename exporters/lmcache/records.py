"""The records of the probe in an LMCache server as typed values: a msgpack list of maps, told apart by `t`.

The probe's README says what each field means; fields that nothing here needs are skipped.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from exporters.oddities import Oddity
from exporters.vllm.hook import BlockTokens, HashDelta
from exporters.wire import Count, Seconds, decode_list

Size = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""Bytes, or a count that grows as long as the server lives."""


class _Record(msgspec.Struct, tag_field="t"):
    """One record; `t` names its kind."""


class Hello(_Record, tag="hello"):
    """Opens the stream and every epoch of it."""

    ts: Seconds
    server: str = ""
    incarnation: int | None = None
    chunk_size: BlockTokens | None = None
    hash_algorithm: str | None = None
    missing: list[str] = []


class Lookup(_Record, tag="lookup"):
    """The `k`-th answered lookup of its request, from 0. Tokens of whole chunks, from the prompt's start."""

    rid: str
    end: Seconds
    hit_tokens: Count
    k: Count = 0
    start: Seconds | None = None
    requested_tokens: Count = 0
    l1_hit_tokens: Count | None = None
    l2_hit_tokens: Count | None = None
    l2_hit_keys: Count | None = None
    model: str = ""
    salt: str | None = None
    hashes: list[bytes | int] | HashDelta | None = None


class Transfer(_Record, tag="transfer"):
    """Chunks copied between an engine and L1: `store` into it, `retrieve` out of it."""

    direction: str
    end: Seconds
    rid: str | None = None
    start: Seconds | None = None
    keys: Count = 0
    bytes: Size = 0


class Load(_Record, tag="load"):
    """A task from L2 to L1 ended; None where the server did not tell."""

    end: Seconds
    rid: str | None = None
    start: Seconds | None = None
    l2_name: str | None = None
    keys: Count | None = None
    loaded_keys: Count | None = None
    failed_keys: Count | None = None
    bytes: Size | None = None


class Store(_Record, tag="store"):
    """A task from L1 to L2 ended."""

    end: Seconds
    start: Seconds | None = None
    l2_name: str | None = None
    stored_keys: Count = 0
    failed_keys: Count = 0
    bytes: Size | None = None
    written_bytes: Size | None = None


class L1Stored(_Record, tag="l1_stored"):
    """Objects became readable in L1; `chunks` are those whose first object this is."""

    ts: Seconds
    source: str = "store"
    keys: Count = 0
    chunks: list[bytes] = []


class L1Evicted(_Record, tag="l1_evicted"):
    """Objects left L1; `chunks` are those whose last object this was."""

    ts: Seconds
    reason: str = "unknown"
    keys: Count = 0
    chunks: list[bytes] = []


class L1AllocFailed(_Record, tag="l1_alloc_failed"):
    """L1 had no room, while storing (`store_refused` says so too) or for what was to come up from L2."""

    ts: Seconds
    during: str = ""
    keys: Count = 0


class L1ReadFailed(_Record, tag="l1_read_failed"):
    """Objects were gone or locked when they were to be read."""

    ts: Seconds
    reason: str = ""
    keys: Count = 0


class StoreRefused(_Record, tag="store_refused"):
    """A store was answered, and these objects were not kept."""

    ts: Seconds
    reason: str = ""
    keys: Count = 0
    rid: str | None = None


class L2Stored(_Record, tag="l2_stored"):
    """An adapter wrote objects that it did not know."""

    ts: Seconds
    model: str = ""
    salt: str | None = None
    l2_name: str | None = None
    keys: Count = 0
    chunks: list[bytes] = []


class L2Removed(_Record, tag="l2_removed"):
    """An adapter deleted objects."""

    ts: Seconds
    model: str = ""
    salt: str | None = None
    l2_name: str | None = None
    keys: Count = 0
    chunks: list[bytes] = []


class L2Evicted(_Record, tag="l2_evicted"):
    """Of the objects just removed, LMCache's own eviction deleted so many."""

    ts: Seconds
    keys: Count = 0


class L2Failed(_Record, tag="l2_failed"):
    """Objects found in L2 did not come to L1."""

    ts: Seconds
    reason: str = ""
    model: str = ""
    salt: str | None = None
    keys: Count = 0
    chunks: list[bytes] = []


class Stats(_Record, tag="stats"):
    """The probe and the bus about themselves, since the server began. `ns` of the bus's thread were ours."""

    ts: Seconds
    events: Size = 0
    ns: Size = 0
    dropped: Size = 0
    errors: Size = 0
    bus_dropped: Size | None = None
    bus_lag_s: Seconds | None = None


Record = (
    Hello
    | Lookup
    | Transfer
    | Load
    | Store
    | L1Stored
    | L1Evicted
    | L1AllocFailed
    | L1ReadFailed
    | StoreRefused
    | L2Stored
    | L2Removed
    | L2Evicted
    | L2Failed
    | Stats
)
KINDS: tuple[type[_Record], ...] = (
    Hello,
    Lookup,
    Transfer,
    Load,
    Store,
    L1Stored,
    L1Evicted,
    L1AllocFailed,
    L1ReadFailed,
    StoreRefused,
    L2Stored,
    L2Removed,
    L2Evicted,
    L2Failed,
    Stats,
)
_TAGS = tuple(str(kind.__struct_config__.tag) for kind in KINDS)

_decode_all = msgspec.msgpack.Decoder(list[Record]).decode
_decode_one = msgspec.msgpack.Decoder(Record).decode


def decode_records(payload: bytes, *, where: str) -> tuple[list[Record], list[Oddity]]:
    """Read one payload; records that cannot be read are oddities.

    `where` names the stream, for messages. Raises `BadInput` when the payload is no list.
    """
    return decode_list(payload, _decode_all, _decode_one, known=_TAGS, where=where)
