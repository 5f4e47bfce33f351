"""What a scan adds up to."""

from __future__ import annotations

import numpy as np

from exporters.mount.chunks import CHUNK
from exporters.mount.figures import Amount, ModelCounts, figures_of
from exporters.mount.files import FILE, FileKind
from exporters.mount.models import MOST_LABELS, Models
from tests.pools import NOW
from tierscope.registry import metrics


def files(*rows):
    """Rows of (kind, model number, bytes, age in seconds)."""
    return np.array(
        [(i, 0, 0, size, NOW - age, 0, model, kind) for i, (kind, model, size, age) in enumerate(rows)],
        dtype=FILE,
    )


def figures(rows, models, dead_after=3600):
    return figures_of(files(*rows), models, dead_before_unix_seconds=NOW - dead_after)


def test_every_file_is_in_one_kind_of_one_model():
    """Kinds and models part the directory: their sums are its sums. Folders are not files."""
    models = Models()
    a, b = models.number("a"), models.number("b")

    found = figures(
        [
            (FileKind.CHUNK, a, 10, 0),
            (FileKind.GROWING, a, 5, 0),
            (FileKind.CHUNK, b, 7, 0),
            (FileKind.EMPTY, b, 0, 0),
            (FileKind.TEMPORARY, a, 3, 10),
            (FileKind.TEMPORARY, a, 4, 4000),
            (FileKind.TEMPORARY, 0, 1, 4000),
            (FileKind.METADATA, 0, 2, 0),
            (FileKind.FOREIGN, 0, 9, 0),
            (FileKind.DIRECTORY, 0, 4096, 0),
        ],
        models,
    )

    assert found.amounts == {
        ("chunk", "a"): Amount(2, 15),
        ("chunk", "b"): Amount(1, 7),
        ("empty", "b"): Amount(1, 0),
        ("temp", "a"): Amount(1, 3),
        ("dead_temp", "a"): Amount(1, 4),
        ("dead_temp", "unknown"): Amount(1, 1),
        ("metadata", "unknown"): Amount(1, 2),
        ("foreign", "unknown"): Amount(1, 9),
    }
    assert found.total == Amount(9, 41)
    assert found.of_kind("temp", "dead_temp") == Amount(3, 8)


def test_labels_are_bounded_and_sums_kept():
    """50 models: the largest have their own series, the rest is one, nothing is lost."""
    models = Models()
    rows = [(FileKind.CHUNK, models.number(f"m{i}"), i, 0) for i in range(50)]

    amounts = figures(rows, models).amounts

    assert len(amounts) == MOST_LABELS + 1
    assert ("chunk", "m49") in amounts
    assert sum(amounts.values(), Amount()) == Amount(50, sum(range(50)))


def test_a_model_beyond_the_most_is_other():
    """Number 0 is a model that nobody could tell apart any more, not an unknown one."""
    assert figures([(FileKind.CHUNK, 0, 5, 0)], Models()).amounts == {("chunk", "other"): Amount(1, 5)}


def test_amounts_become_series():
    """Files and bytes of each kind and model."""
    models = Models()
    found = figures([(FileKind.CHUNK, models.number("a"), 5, 0)], models)

    samples = {(sample.metric, sample.labels): sample.value for sample in found.samples("pool")}

    assert samples == {
        (metrics.POOL_FILES, ("pool", "chunk", "a")): 1,
        (metrics.POOL_FILE_BYTES, ("pool", "chunk", "a")): 5,
    }


def test_changes_are_counted_by_model():
    """Counters only grow, and models without a label share one."""
    chunks = np.zeros(4, dtype=CHUNK)
    chunks["model"] = [1, 1, 2, 3]
    counts = ModelCounts("pool")

    for _ in range(2):
        counts.add(chunks, chunks[2:], ["other", "a", "other", "b"])

    values = {(sample.metric, sample.labels): sample.value for sample in counts.samples()}
    assert values == {
        (metrics.POOL_STORED_BLOCKS, ("pool", "a")): 4,
        (metrics.POOL_STORED_BLOCKS, ("pool", "other")): 2,
        (metrics.POOL_STORED_BLOCKS, ("pool", "b")): 2,
        (metrics.POOL_REMOVED_BLOCKS, ("pool", "other")): 2,
        (metrics.POOL_REMOVED_BLOCKS, ("pool", "b")): 2,
    }
