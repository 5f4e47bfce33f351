"""The feed's entries as they travel: msgpack arrays with a tag, and their way from and to the domain.

Fields may be added at the end of an array with a default, and new tags may be added: old readers skip both.
Anything else is a new `VERSION` in `codec.py`. Block hashes travel as 8 bytes each, little-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    CounterState,
    EngineTokens,
    EvictionReason,
    LedgerEntry,
    SourceCoverage,
    TierActivity,
    TierSample,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.hashes import PackedHashes, packed
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.pool import PoolFiles, PoolTraffic
from tierscope.domain.requests import RequestRecord
from tierscope.domain.tiers import Tier
from tierscope.feed.pool_wire import PoolFilesWire, PoolTrafficWire
from tierscope.feed.request_wire import (
    ArrayWire,
    EngineWire,
    RequestWire,
    TokensWire,
    fields_of,
)


class CounterStateWire(ArrayWire):
    """A `CounterState`."""

    began_unix_seconds: float
    values: tuple[int, ...]

    @classmethod
    def of(cls, state: CounterState | None) -> CounterStateWire | None:
        """Make it ready to travel."""
        return None if state is None else cls(state.began_unix_seconds, state.values)

    def domain(self) -> CounterState:
        """Give back what travelled."""
        return CounterState(self.began_unix_seconds, self.values)


class BlockWire(ArrayWire, tag="block"):
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
            packed(event.block_hashes),
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
            PackedHashes.of(self.block_hashes),
            self.at_unix_seconds,
            self.parent_hash,
            self.block_tokens,
            self.reason,
            self.sequence,
            self.ordinal,
        )


class TierSampleWire(ArrayWire, tag="tier_sample"):
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
        return cls(*fields_of(sample, cls))

    def domain(self) -> TierSample:
        """Give back what travelled."""
        return TierSample(*fields_of(self, type(self)))


class TierActivityWire(ArrayWire, tag="tier_activity"):
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
    total: CounterStateWire | None = None

    @classmethod
    def of(cls, activity: TierActivity) -> TierActivityWire:
        """Make it ready to travel."""
        *values, total = fields_of(activity, cls)
        return cls(*[*values, CounterStateWire.of(total)])

    def domain(self) -> TierActivity:
        """Give back what travelled."""
        *values, total = fields_of(self, type(self))
        return TierActivity(*[*values, None if total is None else total.domain()])


class TierTransferWire(ArrayWire, tag="tier_transfer"):
    """A `TierTransfer`."""

    tier: Tier
    holder: str
    action: TransferAction
    at_unix_seconds: float
    started_unix_seconds: float | None = None
    adapter: str | None = None
    moved_blocks: int = 0
    failed_blocks: int = 0
    size_bytes: int | None = None
    reason: str | None = None

    @classmethod
    def of(cls, transfer: TierTransfer) -> TierTransferWire:
        """Make it ready to travel."""
        return cls(*fields_of(transfer, cls))

    def domain(self) -> TierTransfer:
        """Give back what travelled."""
        return TierTransfer(*fields_of(self, type(self)))


class EngineTokensWire(ArrayWire, tag="engine_tokens"):
    """An `EngineTokens`."""

    engine: EngineWire
    model: str
    since_unix_seconds: float
    at_unix_seconds: float
    tokens: TokensWire
    total: CounterStateWire | None = None

    @classmethod
    def of(cls, entry: EngineTokens) -> EngineTokensWire:
        """Make it ready to travel."""
        return cls(
            EngineWire.of(entry.engine),
            entry.model,
            entry.since_unix_seconds,
            entry.at_unix_seconds,
            TokensWire.of(entry.tokens),
            CounterStateWire.of(entry.total),
        )

    def domain(self) -> EngineTokens:
        """Give back what travelled."""
        return EngineTokens(
            self.engine.domain(),
            self.model,
            self.since_unix_seconds,
            self.at_unix_seconds,
            self.tokens.domain(),
            None if self.total is None else self.total.domain(),
        )


class CoverageWire(ArrayWire, tag="coverage"):
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
        return cls(source.kind, source.owner, *fields_of(coverage, cls, skip=2))

    def domain(self) -> SourceCoverage:
        """Give back what travelled."""
        source = SourceId(self.source_kind, self.source_owner)
        return SourceCoverage(source, *fields_of(self, type(self), skip=2))


EntryWire = (
    RequestWire
    | BlockWire
    | TierSampleWire
    | TierActivityWire
    | TierTransferWire
    | EngineTokensWire
    | CoverageWire
    | PoolTrafficWire
    | PoolFilesWire
)

WIRE_OF: dict[type[LedgerEntry], Callable[[Any], EntryWire]] = {
    RequestRecord: RequestWire.of,
    BlockEvent: BlockWire.of,
    TierSample: TierSampleWire.of,
    TierActivity: TierActivityWire.of,
    TierTransfer: TierTransferWire.of,
    EngineTokens: EngineTokensWire.of,
    SourceCoverage: CoverageWire.of,
    PoolTraffic: PoolTrafficWire.of,
    PoolFiles: PoolFilesWire.of,
}

WIRE_KINDS: tuple[type[EntryWire], ...] = (
    RequestWire,
    BlockWire,
    TierSampleWire,
    TierActivityWire,
    TierTransferWire,
    EngineTokensWire,
    CoverageWire,
    PoolTrafficWire,
    PoolFilesWire,
)
