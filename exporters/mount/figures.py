"""What a scan found, by kind and model: files and bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from exporters.mount.chunks import ChunkArray
from exporters.mount.files import FileArray, FileKind
from exporters.mount.models import Models
from tierscope.domain.pool import PoolFiles
from tierscope.domain.requests import UNKNOWN_MODEL
from tierscope.registry import metrics
from tierscope.registry.types import Sample

_LABELS = {
    FileKind.CHUNK: "chunk",
    FileKind.GROWING: "chunk",
    FileKind.EMPTY: "empty",
    FileKind.TEMPORARY: "temp",
    FileKind.METADATA: "metadata",
    FileKind.FOREIGN: "foreign",
}
"""How kinds are shown; folders are not files."""

DEAD = "dead_temp"
_DEAD_CODE = len(FileKind) + 1
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Amount:
    """Files and their bytes."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.size_bytes + other.size_bytes)


@dataclass(frozen=True, slots=True)
class Figures:
    """One complete scan: amounts by (kind, model label), which add up to the directory."""

    amounts: dict[tuple[str, str], Amount]

    @property
    def total(self) -> Amount:
        """Everything in the directory."""
        return sum(self.amounts.values(), Amount())

    def of_kind(self, *kinds: str) -> Amount:
        """All of some kinds, whatever the model."""
        return sum((amount for (kind, _), amount in self.amounts.items() if kind in kinds), Amount())

    def entries(self, holder: str, at_unix_seconds: float) -> Iterator[PoolFiles]:
        """Yield the amounts of one pool for the feed; the time is when the scan ended."""
        for (kind, model), amount in self.amounts.items():
            yield PoolFiles(holder, kind, model, at_unix_seconds, amount.files, amount.size_bytes)

    def samples(self, holder: str) -> Iterator[Sample]:
        """Yield the amounts of one pool."""
        for (kind, model), amount in self.amounts.items():
            yield Sample(metrics.POOL_FILES, (holder, kind, model), amount.files)
            yield Sample(metrics.POOL_FILE_BYTES, (holder, kind, model), amount.size_bytes)


def figures_of(files: FileArray, models: Models, *, dead_before_unix_seconds: float) -> Figures:
    """Add up the files of a scan; a temporary file last written before `dead_before_unix_seconds` is dead."""
    width = len(models.names)
    counts = np.zeros(width * (_DEAD_CODE + 1), dtype=np.int64)
    sizes = np.zeros(len(counts), dtype=np.float64)
    for start in range(
        0, len(files), _ROWS
    ):  # in pieces, so that a million files need no arrays of their own
        some = files[start : start + _ROWS]
        kinds = some["kind"].astype(np.int64)
        kinds[(kinds == FileKind.TEMPORARY) & (some["modified"] < dead_before_unix_seconds)] = _DEAD_CODE
        codes = kinds * width + some["model"]
        counts += np.bincount(codes, minlength=len(counts))
        sizes += np.bincount(codes, weights=some["size_bytes"], minlength=len(sizes))
    by_model = np.zeros(width)
    for code in np.flatnonzero(counts).tolist():
        by_model[code % width] += sizes[code]
    models.give_labels(lambda number: float(by_model[number]))
    labels = models.labels()
    amounts: dict[tuple[str, str], Amount] = {}
    for code in np.flatnonzero(counts).tolist():
        kind, model = divmod(code, width)
        name = DEAD if kind == _DEAD_CODE else _LABELS.get(FileKind(kind))
        if name is not None:
            key = name, labels[model] if model or _of_a_cache(name) else UNKNOWN_MODEL
            amounts[key] = amounts.get(key, Amount()) + Amount(int(counts[code]), int(sizes[code]))
    return Figures(amounts)


@dataclass(slots=True)
class ModelCounts:
    """Chunks that came and went since the exporter started, by model label."""

    holder: str
    stored: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)

    def add(self, stored: ChunkArray, removed: ChunkArray, labels: Sequence[str]) -> None:
        """Count the changes of one scan; `labels` are the models' by number."""
        for counts, chunks in ((self.stored, stored), (self.removed, removed)):
            found = np.bincount(chunks["model"]) if len(chunks) else np.zeros(0, dtype=np.int64)
            for number in np.flatnonzero(found).tolist():
                counts[labels[number]] = counts.get(labels[number], 0) + int(found[number])

    def samples(self) -> Iterator[Sample]:
        """Yield the counts."""
        for model, count in tuple(self.stored.items()):
            yield Sample(metrics.POOL_STORED_BLOCKS, (self.holder, model), count)
        for model, count in tuple(self.removed.items()):
            yield Sample(metrics.POOL_REMOVED_BLOCKS, (self.holder, model), count)


def _of_a_cache(kind: str) -> bool:
    """Whether files of a kind belong to a model, so that number 0 means one beyond the most."""
    return kind in {"chunk", "empty"}
