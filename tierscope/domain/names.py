"""What an engine and the cache server below it call the same first tokens of a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.identity import EngineId
from tierscope.domain.requests import RequestRecord


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first chunk of a prompt by both its names.

    `chunk_hash` is the server's, `block_hash` the engine's name of the last block within it. Both name
    everything from the prompt's start on; only the engine's knows of a salt or a LoRA adapter, and is then
    not `of_tokens_alone`.
    """

    engine: EngineId
    server: str
    model: str
    block_tokens: int
    chunk_tokens: int
    block_hash: int
    chunk_hash: int
    of_tokens_alone: bool


def beginning_of(record: RequestRecord) -> Beginning | None:
    """The record's first chunk; None where it has no two names for it, or no whole blocks fill it."""
    lookup, size = record.lookup, record.chunk_tokens
    if lookup is None or lookup.first_chunk_hash is None or not size or size % record.block_tokens:
        return None
    blocks = size // record.block_tokens
    if blocks > len(record.block_hashes):
        return None
    return Beginning(
        engine=record.engine,
        server=lookup.server,
        model=record.model,
        block_tokens=record.block_tokens,
        chunk_tokens=size,
        block_hash=record.block_hashes[blocks - 1],
        chunk_hash=lookup.first_chunk_hash,
        of_tokens_alone=record.salt_hash is None and record.adapter is None,
    )
