"""Things that happen to KV blocks, and to the readings of a tier."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from tierscope.domain.errors import BadInput
from tierscope.domain.hashes import Hashes
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.pool import PoolFiles, PoolTraffic
from tierscope.domain.requests import RequestRecord, TokenSplit
from tierscope.domain.tiers import Tier


class BlockAction(StrEnum):
    """What happened to the blocks of an event."""

    STORED = "stored"
    EVICTED = "evicted"


class EvictionReason(StrEnum):
    """Why blocks left a tier."""

    CAPACITY = "capacity"
    """Room was needed."""
    DEMOTED = "demoted"
    """Room was needed, and a lower tier of the same holder's stream holds the block too."""
    CLEAR = "clear"
    """Someone emptied the tier."""
    DELETE = "delete"
    """Someone asked for these blocks to go; others stayed."""
    AFTER_READ = "after_read"
    """Loaded from below for one read and dropped right after it, as the cache is set to do."""
    RESTART = "restart"
    """The holder restarted with an empty cache; it sent no event, we know it from its sequence.

    The time is that of the last event before. Without blocks: the holder began, empty, at this time, and
    who tells that does not know what it held before.
    """
    POOL_REMOVED = "pool_removed"
    """Its files are gone from the pool: evicted, expired or deleted there, by whom nobody tells."""
    UNKNOWN = "unknown"


class BlockEvent(msgspec.Struct, frozen=True, gc=False):
    """Blocks of one tier were stored or evicted, together, at one time.

    Made for every few blocks, at each step of their way: a `Struct` takes a tenth of a dataclass's time.

    `holder` names who holds them: an engine's `str()` for L0, a cache server for L1, a pool for L2.
    `block_hashes` are unsigned 64-bit; `parent_hash` is the block before the first one, None at a root.
    `reason` is set on evictions only. `block_tokens` is 0 where the publisher does not say.
    `sequence` is the number of the message that told it in the holder's own stream, `ordinal` its place
    there: with the holder and the time they name the event, however often it is read. None: no message did.
    """

    tier: Tier
    holder: str
    action: BlockAction
    block_hashes: Hashes
    at_unix_seconds: float
    parent_hash: int | None = None
    block_tokens: int = 0
    reason: EvictionReason | None = None
    sequence: int | None = None
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class TierSample:
    """One reading of how full a tier is. Bytes; None means the source does not report it.

    Blocks are the tier's own unit, `block_tokens` tokens each (GPU blocks in L0, chunks in L1 and L2).
    `used_blocks` are distinct, `duplicate_blocks` further copies of them, `orphan_blocks` those among them
    that no request can hit because an ancestor is gone, `pinned_blocks` those that requests use now.
    """

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


@dataclass(frozen=True, slots=True)
class CounterState:
    """What a source's own counters stand at since they began, so that nobody has to see them grow.

    `began_unix_seconds` is the source's mark of their beginning: another one is another life.
    """

    began_unix_seconds: float
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.began_unix_seconds) and all(0 <= n < 1 << 63 for n in self.values)):
            raise BadInput(
                f"counters that began at {self.began_unix_seconds} cannot stand at {self.values}",
                where="CounterState",
                fix="report the engine release and its page",
            )


@dataclass(frozen=True, slots=True)
class TierActivity:
    """What a cache server's counters grew by between two readings. Never negative: resets are bridged.

    Tokens for lookups, blocks (chunks) for stores and evictions; None where the source has no such counter.
    """

    tier: Tier
    holder: str
    since_unix_seconds: float
    at_unix_seconds: float
    lookup_hit_tokens: int | None = None
    lookup_miss_tokens: int | None = None
    stored_blocks: int | None = None
    evicted_blocks: int | None = None
    failed_blocks: int | None = None
    """Blocks the tier could not take although it may have answered that it did."""
    total: CounterState | None = None
    """Its lookups in all, tokens hit and missed; None where its source counts in another way."""


class TransferAction(StrEnum):
    """Which way blocks went, seen from the tier."""

    STORE = "store"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class TierTransfer:
    """A task that stored blocks in a tier or loaded them from it, as its cache server tells it.

    Blocks are the server's objects: a chunk has one for each KV rank. `failed_blocks` of the task were not
    moved, whatever was answered, for `reason` (the server's word) where one is told. `adapter` is the name
    of the L2 adapter. `size_bytes` is what was moved. None means the server does not say.
    """

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


@dataclass(frozen=True, slots=True)
class EngineTokens:
    """What an engine's own prompt counters grew by between two readings; resets are bridged.

    `total` is what they stand at, by the parts of the split in its order. The first entry of a reader may
    have grown by nothing: it is what its next one, or an earlier reader's last one, is measured against.
    """

    engine: EngineId
    model: str
    since_unix_seconds: float
    at_unix_seconds: float
    tokens: TokenSplit
    total: CounterState | None = None


@dataclass(frozen=True, slots=True)
class SourceCoverage:
    """How much of a source's stream was received in an interval, from its sequence numbers.

    Counts are sequence units of that source (batches of events, scrapes, feed batches).
    `first_sequence`..`last_sequence` is the range covered, both included; None when nothing came.
    `incarnation` changes when the source restarts. `missing` is what is known to be lost, and
    `stale` says that state derived from the source is unknown until a clear or a restart.
    """

    source: SourceId
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

    @property
    def completeness_ratio(self) -> float | None:
        """Share of the interval's units that were received and understood; None before any was due."""
        due = self.received + self.missing + self.undecodable
        return self.received / due if due else None


ENGINE_SOURCES = (SourceKind.VLLM_METRICS, SourceKind.VLLM_EVENTS, SourceKind.VLLM_HOOK)
"""What an engine itself says; the others tell of what endpoints share, or carry everybody's records."""


def of_endpoint(
    coverage: Iterable[SourceCoverage], namespace: str, endpoint: str
) -> tuple[SourceCoverage, ...]:
    """Leave out what other endpoints' engines say."""
    own = f"{namespace}/{endpoint}/"
    return tuple(
        part
        for part in coverage
        if part.source.kind not in ENGINE_SOURCES or part.source.owner.startswith(own)
    )


LedgerEntry = (
    RequestRecord
    | BlockEvent
    | TierSample
    | TierActivity
    | TierTransfer
    | EngineTokens
    | SourceCoverage
    | PoolTraffic
    | PoolFiles
)
"""What an exporter publishes on its feed, and what the store keeps."""
