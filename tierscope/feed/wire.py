"""The feed's entries as they travel: msgpack arrays with a tag, and their way from and to the domain.

Fields may be added at the end of an array with a default, and new tags may be added: old readers skip both.
Anything else is a new `VERSION` in `codec.py`. Block hashes travel as 8 bytes each, little-endian.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EngineTokens,
    EvictionReason,
    LedgerEntry,
    SourceCoverage,
    TierActivity,
    TierSample,
)
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.requests import ExternalReason, RequestRecord, RequestStatus, TokenSplit, TraceContext
from tierscope.domain.tiers import Tier

HASH_BYTES = 8


class _Array(msgspec.Struct, array_like=True, gc=False):
    """A struct that travels as an array of its fields."""


class EngineWire(_Array):
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


class TokensWire(_Array):
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


class TraceWire(_Array):
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


class RequestWire(_Array, tag="request"):
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
        )


class BlockWire(_Array, tag="block"):
    """A `BlockEvent`."""

    tier: Tier
    holder: str
    action: BlockAction
    block_hashes: bytes
    at_unix_seconds: float
    parent_hash: int | None = None
    block_tokens: int = 0
    reason: EvictionReason | None = None
    sequence: int | None = None
    ordinal: int = 0

    @classmethod
    def of(cls, event: BlockEvent) -> BlockWire:
        """Make it ready to travel."""
        return cls(
            event.tier,
            event.holder,
            event.action,
            pack_hashes(event.block_hashes),
            event.at_unix_seconds,
            event.parent_hash,
            event.block_tokens,
            event.reason,
            event.sequence,
            event.ordinal,
        )

    def domain(self) -> BlockEvent:
        """Give back what travelled."""
        return BlockEvent(
            self.tier,
            self.holder,
            self.action,
            unpack_hashes(self.block_hashes),
            self.at_unix_seconds,
            self.parent_hash,
            self.block_tokens,
            self.reason,
            self.sequence,
            self.ordinal,
        )


class TierSampleWire(_Array, tag="tier_sample"):
    """A `TierSample`."""

    tier: Tier
    holder: str
    at_unix_seconds: float
    capacity_bytes: float | None = None
    used_bytes: float | None = None
    pinned_bytes: float | None = None
    capacity_blocks: int | None = None
    used_blocks: int | None = None
    block_tokens: int | None = None
    pinned_blocks: int | None = None
    duplicate_blocks: int | None = None
    orphan_blocks: int | None = None

    @classmethod
    def of(cls, sample: TierSample) -> TierSampleWire:
        """Make it ready to travel."""
        return cls(*_fields(sample, cls))

    def domain(self) -> TierSample:
        """Give back what travelled."""
        return TierSample(*_fields(self, type(self)))


class TierActivityWire(_Array, tag="tier_activity"):
    """A `TierActivity`."""

    tier: Tier
    holder: str
    since_unix_seconds: float
    at_unix_seconds: float
    lookup_hit_tokens: int | None = None
    lookup_miss_tokens: int | None = None
    stored_blocks: int | None = None
    evicted_blocks: int | None = None
    failed_blocks: int | None = None

    @classmethod
    def of(cls, activity: TierActivity) -> TierActivityWire:
        """Make it ready to travel."""
        return cls(*_fields(activity, cls))

    def domain(self) -> TierActivity:
        """Give back what travelled."""
        return TierActivity(*_fields(self, type(self)))


class EngineTokensWire(_Array, tag="engine_tokens"):
    """An `EngineTokens`."""

    engine: EngineWire
    model: str
    since_unix_seconds: float
    at_unix_seconds: float
    tokens: TokensWire

    @classmethod
    def of(cls, entry: EngineTokens) -> EngineTokensWire:
        """Make it ready to travel."""
        return cls(
            EngineWire.of(entry.engine),
            entry.model,
            entry.since_unix_seconds,
            entry.at_unix_seconds,
            TokensWire.of(entry.tokens),
        )

    def domain(self) -> EngineTokens:
        """Give back what travelled."""
        return EngineTokens(
            self.engine.domain(),
            self.model,
            self.since_unix_seconds,
            self.at_unix_seconds,
            self.tokens.domain(),
        )


class CoverageWire(_Array, tag="coverage"):
    """A `SourceCoverage`; its source in two fields."""

    source_kind: SourceKind
    source_owner: str
    incarnation: int
    since_unix_seconds: float
    at_unix_seconds: float
    received: int
    missing: int
    undecodable: int = 0
    restarts: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None
    stale: bool = False

    @classmethod
    def of(cls, coverage: SourceCoverage) -> CoverageWire:
        """Make it ready to travel."""
        source = coverage.source
        return cls(source.kind, source.owner, *_fields(coverage, cls, skip=2))

    def domain(self) -> SourceCoverage:
        """Give back what travelled."""
        source = SourceId(self.source_kind, self.source_owner)
        return SourceCoverage(source, *_fields(self, type(self), skip=2))


EntryWire = RequestWire | BlockWire | TierSampleWire | TierActivityWire | EngineTokensWire | CoverageWire

WIRE_OF: dict[type[LedgerEntry], Callable[[Any], EntryWire]] = {
    RequestRecord: RequestWire.of,
    BlockEvent: BlockWire.of,
    TierSample: TierSampleWire.of,
    TierActivity: TierActivityWire.of,
    EngineTokens: EngineTokensWire.of,
    SourceCoverage: CoverageWire.of,
}

WIRE_KINDS: tuple[type[EntryWire], ...] = (
    RequestWire,
    BlockWire,
    TierSampleWire,
    TierActivityWire,
    EngineTokensWire,
    CoverageWire,
)


def pack_hashes(hashes: Sequence[int]) -> bytes:
    """Return unsigned 64-bit hashes as little-endian bytes; raises OverflowError beyond 64 bits."""
    packed = array("Q", hashes)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_hashes(packed: bytes) -> tuple[int, ...]:
    """Undo `pack_hashes`; raises ValueError for a length that is no multiple of 8."""
    hashes = array("Q")
    hashes.frombytes(packed)
    if sys.byteorder == "big":
        hashes.byteswap()
    return tuple(hashes)


def _fields(value: object, kind: type[_Array], skip: int = 0) -> list[Any]:
    """The values of the fields that both forms name alike, in order."""
    return [getattr(value, name) for name in kind.__struct_fields__[skip:]]
