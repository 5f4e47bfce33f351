"""The engine hook's records as typed values: one payload is a msgpack list of maps, told apart by `t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from exporters.oddities import Oddity
from exporters.wire import Count, Seconds, decode_list

BlockTokens = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class Hello(msgspec.Struct, tag="hello", tag_field="t", frozen=True, kw_only=True):
    """The engine's first record: what all its later ones are about."""

    ts: Seconds
    block_size: BlockTokens
    model: str
    rank: int | None = None
    form: str | None = None


class HashDelta(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """A chain of which the first `start` blocks are known to who has seen `anchor`, their last."""

    start: Count
    new: list[bytes | int]
    anchor: bytes | int | None = None


class Admit(msgspec.Struct, tag="admit", tag_field="t", frozen=True, kw_only=True):
    """One admission. Tokens; `hashes` are the prompt's full blocks; `ps` is [prompt, local, external].

    `attempt` 0 is the first admission, more are after preemptions. `lookups` is how often the connector was
    asked before it. `total` is the prompt and what was already generated. `split` is the load by the
    connector's names of its tiers. `skip` says that the request looks in no cache by its nature.
    """

    ts: Seconds
    rid: str
    prompt: Count
    attempt: Count = 0
    total: Count | None = None
    local: Count = 0
    external: Count = 0
    split: dict[str, Count] | None = None
    skip: bool = False
    ps: tuple[Count, Count, Count] | None = None
    arrival: Seconds | None = None
    lookups: Count = 0
    lookup_wait_s: Seconds | None = None
    hashes: list[bytes | int] | HashDelta | None = None
    salt: object = None
    lora: str | None = None
    session: object = None
    trace: dict[str, str] | None = None


class Loaded(msgspec.Struct, tag="loaded", tag_field="t", frozen=True, kw_only=True):
    """An asynchronous load of an admission ended, `wait_s` seconds after the admission."""

    ts: Seconds
    rid: str
    wait_s: Seconds


class First(msgspec.Struct, tag="first", tag_field="t", frozen=True, kw_only=True):
    """The first token of a request, `ttft_s` seconds after its arrival."""

    ts: Seconds
    rid: str
    ttft_s: Seconds | None = None


class Finish(msgspec.Struct, tag="finish", tag_field="t", frozen=True, kw_only=True):
    """The end of a request; `admitted` is False when it was given up while it waited."""

    ts: Seconds
    rid: str
    status: str = ""
    admitted: bool = True


class Stats(msgspec.Struct, tag="stats", tag_field="t", frozen=True, kw_only=True):
    """The hook about itself, cumulative: records dropped for want of room, and errors it swallowed."""

    ts: Seconds
    dropped: int = 0
    errors: int = 0


HookRecord = Hello | Admit | Loaded | First | Finish | Stats
_KINDS = ("hello", "admit", "loaded", "first", "finish", "stats")

_decode_records = msgspec.msgpack.Decoder(list[HookRecord]).decode
_decode_record = msgspec.msgpack.Decoder(HookRecord).decode


@dataclass(frozen=True, slots=True)
class HookBatch:
    """The records of one payload in order, and what in it could not be placed."""

    records: tuple[HookRecord, ...]
    oddities: tuple[Oddity, ...] = ()


def decode_records(payload: bytes, *, where: str) -> HookBatch:
    """Read one payload; records that cannot be read are oddities.

    `where` names the stream, for messages. Raises `BadInput` when the payload is not a list.
    """
    records, oddities = decode_list(payload, _decode_records, _decode_record, known=_KINDS, where=where)
    return HookBatch(tuple(records), tuple(oddities))
