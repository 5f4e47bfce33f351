"""Running totals of what cache servers moved, as samples. Not thread-safe: the ledger holds the lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tierscope.domain.events import TierTransfer, TransferAction
from tierscope.registry import transfer_metrics
from tierscope.registry.types import Sample
from tierscope.telemetry.histogram import HistogramAccumulator

Place = tuple[str, str, str]
"""Tier, holder and adapter, as labels; a tier without adapters has the empty one."""


class TransferTotals:
    """Sums of stores and loads by tier, holder and adapter, and of what of them failed by reason."""

    def __init__(self) -> None:
        self._seconds = {
            TransferAction.LOAD: HistogramAccumulator(transfer_metrics.TIER_LOAD_SECONDS),
            TransferAction.STORE: HistogramAccumulator(transfer_metrics.STORE_SECONDS),
        }
        self._blocks: dict[tuple[Place, TransferAction], int] = defaultdict(int)
        self._bytes: dict[tuple[Place, TransferAction], int] = defaultdict(int)
        self._failed: dict[tuple[str, str, TransferAction, str], int] = defaultdict(int)

    def count(self, transfer: TierTransfer) -> None:
        """Add one task. How long it took counts where it moved anything."""
        place = (transfer.tier, transfer.holder, transfer.adapter or "")
        if transfer.moved_blocks:
            self._blocks[place, transfer.action] += transfer.moved_blocks
            if transfer.started_unix_seconds is not None:
                took_seconds = max(0.0, transfer.at_unix_seconds - transfer.started_unix_seconds)
                self._seconds[transfer.action].observe(place, took_seconds)
        if transfer.size_bytes is not None:
            self._bytes[place, transfer.action] += transfer.size_bytes
        if transfer.failed_blocks:
            reason = transfer.reason or "unknown"
            self._failed[transfer.tier, transfer.holder, transfer.action, reason] += transfer.failed_blocks

    def samples(self) -> Iterator[Sample]:
        """Yield the present totals."""
        for seconds in self._seconds.values():
            yield from seconds.samples()
        for (place, action), blocks in self._blocks.items():
            yield Sample(transfer_metrics.TRANSFERRED_BLOCKS, (*place, action), blocks)
        for (place, action), size_bytes in self._bytes.items():
            yield Sample(transfer_metrics.TRANSFERRED_BYTES, (*place, action), size_bytes)
        for labels, blocks in self._failed.items():
            yield Sample(transfer_metrics.FAILED_TRANSFERS, labels, blocks)
