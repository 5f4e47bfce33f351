"""vLLM's KV events as typed block changes. Token ids are never decoded: they end at this wall.

A batch is the array `[time, events, rank]`. An event is a map with a `type` since 0.24, an array that begins
with it before; later fields of either are ignored. Hashes are numbers, or the digest itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, TypeGuard

import msgspec

from exporters.oddities import Oddity
from exporters.wire import UNREADABLE, Count, Seconds, decode_each, undecodable
from tierscope.domain.tiers import Tier
from tierscope.domain.units import BLOCK_HASH_MASK, block_hash_of_bytes

BlockHash = int | bytes

_NIL = msgspec.Raw(b"\xc0")


_Hash = Annotated[int, msgspec.Meta(ge=0)]
_WIRE_NAMES = {
    "parent_hash": "parent_block_hash",
    "block_tokens": "block_size",
    "group": "group_idx",
    "kind": "kv_cache_spec_kind",
}


class BlocksStored(
    msgspec.Struct, frozen=True, gc=False, tag="BlockStored", tag_field="type", rename=_WIRE_NAMES
):
    """Blocks that one medium now holds (once more). `parent_hash` is the block before the first.

    `kind` is the engine's name of the attention that the blocks serve; None where it does not say.
    """

    block_hashes: tuple[_Hash, ...]
    medium: str | None = None
    group: int = 0
    parent_hash: _Hash | None = None
    block_tokens: Count = 0
    kind: str | None = None


class BlocksRemoved(
    msgspec.Struct, frozen=True, gc=False, tag="BlockRemoved", tag_field="type", rename=_WIRE_NAMES
):
    """Blocks of which one medium now holds one copy less."""

    block_hashes: tuple[_Hash, ...]
    medium: str | None = None
    group: int = 0


class BlocksCleared(msgspec.Struct, frozen=True, gc=False, tag="AllBlocksCleared", tag_field="type"):
    """The engine emptied its GPU cache."""


BlockChange = BlocksStored | BlocksRemoved | BlocksCleared

_decode_changes = msgspec.msgpack.Decoder(tuple[Seconds, tuple[BlockChange, ...], int | None]).decode
"""Of the way engines write today, nearly all of it: maps with hashes that are numbers. No second step."""


class _StoredMap(msgspec.Struct, tag="BlockStored", tag_field="type", gc=False):
    block_hashes: list[BlockHash]
    parent_block_hash: BlockHash | None = None
    block_size: Count = 0
    medium: str | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None


class _RemovedMap(msgspec.Struct, tag="BlockRemoved", tag_field="type", gc=False):
    block_hashes: list[BlockHash]
    medium: str | None = None
    group_idx: int | None = None


class _ClearedMap(msgspec.Struct, tag="AllBlocksCleared", tag_field="type", gc=False):
    pass


class _StoredArray(msgspec.Struct, tag="BlockStored", array_like=True, gc=False):
    block_hashes: list[BlockHash]
    parent_block_hash: BlockHash | None
    token_ids: msgspec.Raw
    block_size: Count
    lora_id: msgspec.Raw
    medium: str | None = None
    lora_name: msgspec.Raw = _NIL
    extra_keys: msgspec.Raw = _NIL
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None


class _RemovedArray(msgspec.Struct, tag="BlockRemoved", array_like=True, gc=False):
    block_hashes: list[BlockHash]
    medium: str | None = None
    group_idx: int | None = None


class _ClearedArray(msgspec.Struct, tag="AllBlocksCleared", array_like=True, gc=False):
    pass


_MapEvent = _StoredMap | _RemovedMap | _ClearedMap
_ArrayEvent = _StoredArray | _RemovedArray | _ClearedArray
_Event = _MapEvent | _ArrayEvent
_KINDS = ("BlockStored", "BlockRemoved", "AllBlocksCleared")

_decode_map_batch = msgspec.msgpack.Decoder(tuple[Seconds, list[_MapEvent], int | None]).decode
_decode_array_batch = msgspec.msgpack.Decoder(tuple[Seconds, list[_ArrayEvent], int | None]).decode
_decode_raw_batch = msgspec.msgpack.Decoder(tuple[Seconds, list[msgspec.Raw], int | None]).decode
_decode_map: Callable[[msgspec.Raw], _Event] = msgspec.msgpack.Decoder(_MapEvent).decode
_decode_array: Callable[[msgspec.Raw], _Event] = msgspec.msgpack.Decoder(_ArrayEvent).decode

_MEDIA = {
    **dict.fromkeys(("gpu", "cuda", "hbm", "device", "xpu", "npu", "tpu", "hpu"), Tier.L0),
    **dict.fromkeys(("cpu", "host", "dram", "ram", "memory", "localcpubackend"), Tier.L1),
    **dict.fromkeys(
        ("storage", "fs", "disk", "obj", "object", "file", "nvme", "ssd", "s3", "localdiskbackend",
         "remotebackend"), Tier.L2),
}  # fmt: skip
_MEDIUM_WORD = re.compile(r"(?:device\(type=')?([a-z0-9]+)")


@lru_cache(maxsize=256)
def tier_of_medium(medium: str | None) -> Tier | None:
    """Return the tier a medium stands for, however it is spelled; None where it is not known or not said.

    'GPU', 'cuda:0' and "device(type='cuda')" are L0; 'CPU' and 'cpu' L1; 'STORAGE', 'FS' and 'OBJ' L2.
    """
    word = _MEDIUM_WORD.match(medium.strip().lower()) if medium else None
    return _MEDIA.get(word[1]) if word else None


class ChangeBatch(msgspec.Struct, frozen=True, gc=False):
    """What one scheduler step of one engine did to blocks, in order. `rank` is None where not said."""

    at_unix_seconds: float
    changes: tuple[BlockChange, ...]
    rank: int | None
    oddities: tuple[Oddity, ...] = ()


def decode_events(payload: bytes, *, where: str) -> ChangeBatch:
    """Read one batch of KV events; events that cannot be read are oddities.

    `where` names the stream, for messages. Raises `BadInput` when not even the batch can be read.
    """
    try:
        return ChangeBatch(*_decode_changes(payload))
    except UNREADABLE:
        pass  # as other releases write it, or partly unknown
    for decode in (_decode_map_batch, _decode_array_batch):
        try:
            at_unix_seconds, events, rank = decode(payload)
        except UNREADABLE:
            continue
        return ChangeBatch(at_unix_seconds, tuple(map(_change, events)), rank)
    return _decode_one_by_one(payload, where)


def _decode_one_by_one(payload: bytes, where: str) -> ChangeBatch:
    try:
        at_unix_seconds, items, rank = _decode_raw_batch(payload)
    except UNREADABLE as error:
        raise undecodable(payload, error, where) from error
    events, oddities = decode_each(items, _decode_either, known=_KINDS, where=where)
    return ChangeBatch(at_unix_seconds, tuple(map(_change, events)), rank, tuple(oddities))


def _decode_either(item: msgspec.Raw) -> _Event:
    first = bytes(item)[0]
    is_array = 0x90 <= first <= 0x9F or first in {0xDC, 0xDD}
    return (_decode_array if is_array else _decode_map)(item)


def _change(event: _Event) -> BlockChange:
    if isinstance(event, _StoredMap | _StoredArray):
        return BlocksStored(
            medium=event.medium,
            group=event.group_idx or 0,
            block_hashes=_hashes(event.block_hashes),
            parent_hash=None if event.parent_block_hash is None else _hash(event.parent_block_hash),
            block_tokens=event.block_size,
            kind=event.kv_cache_spec_kind,
        )
    if isinstance(event, _RemovedMap | _RemovedArray):
        return BlocksRemoved(_hashes(event.block_hashes), event.medium, event.group_idx or 0)
    return BlocksCleared()


def _hashes(block_hashes: list[BlockHash]) -> tuple[int, ...]:
    if _are_numbers(block_hashes) and min(block_hashes) >= 0:
        return tuple(block_hashes)
    return tuple(map(_hash, block_hashes))


def _are_numbers(block_hashes: list[BlockHash]) -> TypeGuard[list[int]]:
    return set(map(type, block_hashes)) == {int}


def _hash(block_hash: BlockHash) -> int:
    if isinstance(block_hash, bytes):
        return block_hash_of_bytes(block_hash)
    return block_hash & BLOCK_HASH_MASK  # LMCache publishes signed numbers
