"""How a request record travels: msgpack arrays, hashes of 8 bytes each; see `wire.py` for the rules."""

from __future__ import annotations

from typing import Any

import msgspec

from tierscope.domain.hashes import pack_hashes, unpack_hashes
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import (
    CacheLookup,
    ExternalReason,
    RequestRecord,
    RequestStatus,
    TierLoad,
    TokenSplit,
    TraceContext,
)
from tierscope.domain.tiers import Tier


class ArrayWire(msgspec.Struct, array_like=True, gc=False):
    """A struct that travels as an array of its fields."""


class EngineWire(ArrayWire):
    """An `EngineId`."""

    namespace: str
    endpoint: str
    replica: str
    rank: int

    @classmethod
    def of(cls, engine: EngineId) -> EngineWire:
        """Make it ready to travel."""
        return cls(engine.namespace, engine.endpoint, engine.replica, engine.rank)

    def domain(self) -> EngineId:
        """Give back what travelled."""
        return EngineId(self.namespace, self.endpoint, self.replica, self.rank)


class TokensWire(ArrayWire):
    """A `TokenSplit`."""

    prompt: int
    l0: int
    l1: int
    l2: int
    external: int
    computed: int

    @classmethod
    def of(cls, tokens: TokenSplit) -> TokensWire:
        """Make it ready to travel."""
        return cls(tokens.prompt, tokens.l0, tokens.l1, tokens.l2, tokens.external, tokens.computed)

    def domain(self) -> TokenSplit:
        """Give back what travelled."""
        return TokenSplit(self.prompt, self.l0, self.l1, self.l2, self.external, self.computed)


class TraceWire(ArrayWire):
    """A `TraceContext`."""

    trace_id: str
    span_id: str
    sampled: bool

    @classmethod
    def of(cls, trace: TraceContext) -> TraceWire:
        """Make it ready to travel."""
        return cls(trace.trace_id, trace.span_id, trace.sampled)

    def domain(self) -> TraceContext:
        """Give back what travelled."""
        return TraceContext(self.trace_id, self.span_id, self.sampled)


class TierLoadWire(ArrayWire):
    """A `TierLoad`."""

    tier: Tier
    ended_unix_seconds: float
    started_unix_seconds: float | None = None
    blocks: int | None = None
    size_bytes: int | None = None
    adapter: str | None = None

    @classmethod
    def of(cls, load: TierLoad) -> TierLoadWire:
        """Make it ready to travel."""
        return cls(*fields_of(load, cls))

    def domain(self) -> TierLoad:
        """Give back what travelled."""
        return TierLoad(*fields_of(self, type(self)))


class LookupWire(ArrayWire):
    """A `CacheLookup`."""

    server: str
    ended_unix_seconds: float
    hit_tokens: int
    l1_hit_tokens: int
    started_unix_seconds: float | None = None
    loads: list[TierLoadWire] = []
    first_chunk_hash: int | None = None

    @classmethod
    def of(cls, lookup: CacheLookup) -> LookupWire:
        """Make it ready to travel."""
        return cls(
            lookup.server,
            lookup.ended_unix_seconds,
            lookup.hit_tokens,
            lookup.l1_hit_tokens,
            lookup.started_unix_seconds,
            [TierLoadWire.of(load) for load in lookup.loads],
            lookup.first_chunk_hash,
        )

    def domain(self) -> CacheLookup:
        """Give back what travelled."""
        return CacheLookup(
            self.server,
            self.ended_unix_seconds,
            self.hit_tokens,
            self.l1_hit_tokens,
            self.started_unix_seconds,
            tuple(load.domain() for load in self.loads),
            self.first_chunk_hash,
        )


class RequestWire(ArrayWire, tag="request"):
    """A `RequestRecord`."""

    engine: EngineWire
    model: str
    request_id: str
    attempt: int
    status: RequestStatus
    tokens: TokensWire
    block_tokens: int
    block_hashes: bytes
    arrived_unix_seconds: float
    admitted_unix_seconds: float
    chunk_tokens: int | None = None
    external_reason: ExternalReason | None = None
    queue_seconds: float | None = None
    load_seconds: float | None = None
    ttft_seconds: float | None = None
    session_hash: int | None = None
    salt_hash: int | None = None
    trace: TraceWire | None = None
    asks_cache: bool = True
    lookup: LookupWire | None = None
    adapter: str | None = None

    @classmethod
    def of(cls, record: RequestRecord) -> RequestWire:
        """Make it ready to travel."""
        return cls(
            EngineWire.of(record.engine),
            record.model,
            record.request_id,
            record.attempt,
            record.status,
            TokensWire.of(record.tokens),
            record.block_tokens,
            pack_hashes(record.block_hashes),
            record.arrived_unix_seconds,
            record.admitted_unix_seconds,
            record.chunk_tokens,
            record.external_reason,
            record.queue_seconds,
            record.load_seconds,
            record.ttft_seconds,
            record.session_hash,
            record.salt_hash,
            None if record.trace is None else TraceWire.of(record.trace),
            record.asks_cache,
            None if record.lookup is None else LookupWire.of(record.lookup),
            record.adapter,
        )

    def domain(self) -> RequestRecord:
        """Give back what travelled."""
        return RequestRecord(
            self.engine.domain(),
            self.model,
            self.request_id,
            self.attempt,
            self.status,
            self.tokens.domain(),
            self.block_tokens,
            unpack_hashes(self.block_hashes),
            self.arrived_unix_seconds,
            self.admitted_unix_seconds,
            self.chunk_tokens,
            self.external_reason,
            self.queue_seconds,
            self.load_seconds,
            self.ttft_seconds,
            self.session_hash,
            self.salt_hash,
            None if self.trace is None else self.trace.domain(),
            self.asks_cache,
            None if self.lookup is None else self.lookup.domain(),
            self.adapter,
        )


def fields_of(value: object, kind: type[ArrayWire], skip: int = 0) -> list[Any]:
    """The values of the fields that both forms name alike, in order."""
    return [getattr(value, name) for name in kind.__struct_fields__[skip:]]
