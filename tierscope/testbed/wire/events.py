"""KV-cache events as vLLM 0.32 encodes them: a batch is an array, each event a map with its type first."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tierscope.testbed.model.l0 import BlockChange, Stored


class _BlockStored(msgspec.Struct, tag_field="type", tag="BlockStored", frozen=True):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: None
    medium: str
    lora_name: None
    extra_keys: list[list[str] | None]
    group_idx: int = 0
    kv_cache_spec_kind: str = "full_attention"


class _BlockRemoved(msgspec.Struct, tag_field="type", tag="BlockRemoved", frozen=True):
    block_hashes: tuple[int, ...]
    medium: str = "GPU"
    group_idx: int = 0


class EventEncoder:
    """Turns what an engine's pool says into payloads. Token ids are made up from the hashes."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, changes: Iterable[BlockChange], at_unix_seconds: float) -> bytes:
        """Return one batch: [time, events, data-parallel rank]."""
        events: list[_BlockStored | _BlockRemoved] = []
        for change in changes:
            if isinstance(change, Stored):
                events.append(self._stored(change))
            else:
                events += [_BlockRemoved((value,)) for value in change.hashes]
        return self._encoder.encode((at_unix_seconds, events, 0))

    def _stored(self, change: Stored) -> _BlockStored:
        hashes = list(change.hashes)
        size = self._block_tokens
        token_ids: list[int] = []
        for value in hashes:
            token_ids += [value & 0x7F] * size
        keys: list[list[str] | None] = [None] * len(hashes)
        if change.salt is not None:
            keys[0] = [change.salt]
        return _BlockStored(hashes, change.parent, token_ids, size, None, "GPU", None, keys)
