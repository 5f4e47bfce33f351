"""Running totals of ledger entries, as samples. Not thread-safe: the ledger holds the lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from exporters.attribution import loaded_from, served_from
from exporters.pool_totals import PoolTotals
from exporters.reuse import ReuseGaps
from exporters.transfers import TransferTotals
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EngineTokens,
    EvictionReason,
    LedgerEntry,
    SourceCoverage,
    TierActivity,
    TierSample,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.identity import EngineId, SourceId
from tierscope.domain.pool import PoolFiles, PoolTraffic
from tierscope.domain.requests import NO_TOKENS, RequestRecord, RequestStatus, TokenSplit
from tierscope.domain.tiers import Origin, Tier
from tierscope.registry import block_metrics, metrics
from tierscope.registry.types import Exemplar, Metric, Sample
from tierscope.telemetry.histogram import HistogramAccumulator

EngineLabels = tuple[str, str, str, str, str]
Holder = tuple[str, str]
"""Tier and holder, as labels."""

_GAUGES: tuple[tuple[Metric, str], ...] = (
    (metrics.CAPACITY_BYTES, "capacity_bytes"),
    (metrics.USED_BYTES, "used_bytes"),
    (metrics.CAPACITY_BLOCKS, "capacity_blocks"),
    (metrics.RESIDENT_BLOCKS, "used_blocks"),
    (block_metrics.PINNED_BLOCKS, "pinned_blocks"),
    (block_metrics.DUPLICATE_BLOCKS, "duplicate_blocks"),
    (block_metrics.ORPHAN_BLOCKS, "orphan_blocks"),
)
"""Gauges of a tier and the fields of a reading they show; what a reading leaves out is absent."""


class Totals:
    """Sums of everything counted so far, and the latest reading of every tier."""

    def __init__(self) -> None:
        self._record_tokens: dict[EngineLabels, TokenSplit] = {}
        self._engine_tokens: dict[EngineLabels, TokenSplit] = {}
        self._requests: dict[tuple[EngineLabels, RequestStatus], int] = defaultdict(int)
        self._ttft = HistogramAccumulator(metrics.TIME_TO_FIRST_TOKEN)
        self._loads = HistogramAccumulator(metrics.LOAD_SECONDS)
        self._uses = ReuseGaps()
        self._reuse = HistogramAccumulator(block_metrics.REUSE_GAP)
        self._unasked: dict[EngineLabels, int] = defaultdict(int)
        self._lookups: dict[tuple[Holder, str], int] = defaultdict(int)
        self._stored: dict[Holder, int] = defaultdict(int)
        self._evicted: dict[tuple[Holder, EvictionReason], int] = defaultdict(int)
        self._failed: dict[Holder, int] = defaultdict(int)
        self._transfers = TransferTotals()
        self._pools = PoolTotals()
        self._readings: dict[tuple[SourceId, Tier, str], TierSample] = {}

    def count(self, source: SourceId, entry: LedgerEntry) -> None:
        """Add one entry of a source, or take its latest reading.

        Coverage and a pool's files are shown by the sources themselves and add nothing here.
        """
        match entry:
            case RequestRecord():
                self._count_record(entry)
            case BlockEvent():
                self._count_blocks(entry)
            case TierActivity():
                self._count_activity(entry)
            case TierTransfer():
                self._transfers.count(entry)
                if entry.failed_blocks and entry.action is TransferAction.STORE:
                    self._failed[entry.tier, entry.holder] += entry.failed_blocks
            case EngineTokens():
                labels = _engine_labels(entry.engine, entry.model)
                self._engine_tokens[labels] = self._engine_tokens.get(labels, NO_TOKENS) + entry.tokens
            case PoolTraffic():
                self._pools.count(entry)
            case TierSample():
                self._readings[source, entry.tier, entry.holder] = entry
            case SourceCoverage() | PoolFiles():
                pass

    def remember(self, source: SourceId, entry: LedgerEntry) -> None:
        """Take what an entry of a time before the page's says about later ones; it is not counted."""
        match entry:
            case RequestRecord():
                for _ in self._uses.take(entry):
                    pass
            case TierSample():
                self._readings[source, entry.tier, entry.holder] = entry
            case _:
                pass

    def forget_readings(self, source: SourceId) -> None:
        """Drop what a source said last."""
        self._readings = {key: value for key, value in self._readings.items() if key[0] != source}

    def samples(self) -> Iterator[Sample]:
        """Yield the present totals and readings."""
        yield from _token_samples(metrics.REQUEST_TOKENS, self._record_tokens)
        yield from _token_samples(metrics.ENGINE_TOKENS, self._engine_tokens)
        for (labels, status), count in self._requests.items():
            yield Sample(metrics.REQUESTS, (*labels, status), count)
        yield from self._ttft.samples()
        yield from self._loads.samples()
        yield from self._reuse.samples()
        for labels, tokens in self._unasked.items():
            yield Sample(block_metrics.UNASKED_TOKENS, labels, tokens)
        for (holder, result), tokens in self._lookups.items():
            yield Sample(metrics.LOOKUP_TOKENS, (*holder, result), tokens)
        for metric, blocks in ((metrics.STORED_BLOCKS, self._stored), (metrics.FAILED_BLOCKS, self._failed)):
            for holder, count in blocks.items():
                yield Sample(metric, holder, count)
        for (holder, reason), count in self._evicted.items():
            yield Sample(metrics.EVICTED_BLOCKS, (*holder, reason), count)
        yield from self._transfers.samples()
        yield from self._pools.samples()
        yield from self._gauges()

    def _count_record(self, record: RequestRecord) -> None:
        labels = _engine_labels(record.engine, record.model)
        self._requests[labels, record.status] += 1
        if record.counts:
            self._record_tokens[labels] = self._record_tokens.get(labels, NO_TOKENS) + record.tokens
            if record.ttft_seconds is not None:
                ttft = record.ttft_seconds
                self._ttft.observe((*labels, served_from(record.tokens)), ttft, exemplar=_seen(record, ttft))
            if not record.asks_cache:
                self._unasked[labels] += record.tokens.prompt
            for reuse in self._uses.take(record):
                self._reuse.observe((*labels, reuse.origin), reuse.gap_seconds, reuse.blocks)
        tier = loaded_from(record.tokens)
        if tier is not None and record.load_seconds is not None:
            self._loads.observe((*labels, tier), record.load_seconds)

    def _count_blocks(self, event: BlockEvent) -> None:
        holder = (event.tier, event.holder)
        if event.action is BlockAction.STORED:
            self._stored[holder] += len(event.block_hashes)
        elif event.block_hashes:
            self._evicted[holder, event.reason or EvictionReason.UNKNOWN] += len(event.block_hashes)

    def _count_activity(self, activity: TierActivity) -> None:
        holder = (activity.tier, activity.holder)
        if activity.lookup_hit_tokens is not None:
            self._lookups[holder, "hit"] += activity.lookup_hit_tokens
        if activity.lookup_miss_tokens is not None:
            self._lookups[holder, "miss"] += activity.lookup_miss_tokens
        if activity.stored_blocks is not None:
            self._stored[holder] += activity.stored_blocks
        if activity.evicted_blocks is not None:
            self._evicted[holder, EvictionReason.UNKNOWN] += activity.evicted_blocks
        if activity.failed_blocks is not None:
            self._failed[holder] += activity.failed_blocks

    def _gauges(self) -> Iterator[Sample]:
        """The latest readings; where two sources read one tier of one holder, the later one is shown."""
        latest: dict[Holder, TierSample] = {}
        for reading in self._readings.values():
            known = latest.get((reading.tier, reading.holder))
            if known is None or known.at_unix_seconds <= reading.at_unix_seconds:
                latest[reading.tier, reading.holder] = reading
        for holder, reading in latest.items():
            for metric, field in _GAUGES:
                value: float | None = getattr(reading, field)
                if value is not None:
                    yield Sample(metric, holder, value)
            if reading.used_blocks is not None and reading.capacity_blocks:
                copies = reading.used_blocks + (reading.duplicate_blocks or 0)
                yield Sample(block_metrics.FILL, holder, copies / reading.capacity_blocks)


def _engine_labels(engine: EngineId, model: str) -> EngineLabels:
    return engine.namespace, engine.endpoint, model, engine.replica, str(engine.rank)


def _token_samples(metric: Metric, totals: dict[EngineLabels, TokenSplit]) -> Iterator[Sample]:
    for labels, tokens in totals.items():
        for origin in Origin:
            yield Sample(metric, (*labels, origin), tokens.of(origin))


def _seen(record: RequestRecord, seconds: float) -> Exemplar | None:
    """An observation with the trace that shows it; None where the caller has none or does not keep it."""
    if record.trace is None or not record.trace.sampled:
        return None
    return Exemplar(record.trace.trace_id, seconds, record.arrived_unix_seconds + seconds)
