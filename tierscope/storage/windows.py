"""A span of the requests table as arrays, chains put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tierscope.domain.errors import StoreUnusable
from tierscope.domain.identity import EngineId
from tierscope.domain.trace import Int64Array
from tierscope.domain.window import RequestWindow, TimeSpan
from tierscope.storage.assembly import DeltaRows, assembled

# Deltas stay within their hour, so the hours of a span hold every parent of its rows.
_HOURS = """
SELECT
  id, parent_id, common_blocks, blocks, new_hashes,
  status = 'served' AND admitted_unix_seconds >= $start AND admitted_unix_seconds < $end AS wanted,
  admitted_unix_seconds, replica, rank, model, coalesce(session_hash, 0) AS session,
  prompt_tokens, l0_tokens, l1_tokens, l2_tokens, external_tokens, computed_tokens,
  queue_seconds, load_seconds, ttft_seconds, block_tokens, chunk_tokens
FROM requests
WHERE hour BETWEEN $first_hour AND $last_hour AND namespace = $namespace AND endpoint = $endpoint
"""
_MOST_HOURS = 2**31 - 1

Name = TypeVar("Name", str, tuple[str, int])


def span_values(namespace: str, endpoint: str, span: TimeSpan) -> dict[str, object]:
    """The values that queries over an endpoint's span are given."""
    return {
        "namespace": namespace,
        "endpoint": endpoint,
        "start": span.start_unix_seconds,
        "end": span.end_unix_seconds,
        "first_hour": _hour(span.start_unix_seconds),
        "last_hour": _hour(span.end_unix_seconds),
    }


def _hour(unix_seconds: float) -> int:
    return int(max(-_MOST_HOURS, min(_MOST_HOURS, unix_seconds // 3600)))


def read_window(
    cursor: duckdb.DuckDBPyConnection, namespace: str, endpoint: str, span: TimeSpan
) -> RequestWindow:
    """Return the endpoint's served first admissions of the span, oldest first.

    A window has one block size: where it changed within the span, only requests of the size (and chunk
    size) in force at its end are in it. A size that was not said fits any. Without any request both
    sizes are unknown: 0 and None.
    """
    table = cursor.execute(_HOURS, span_values(namespace, endpoint, span)).to_arrow_table()
    wanted = np.flatnonzero(_array(table, "wanted"))
    order = np.lexsort((_array(table, "id")[wanted], _array(table, "admitted_unix_seconds")[wanted]))
    wanted, block_tokens, chunk_tokens = _of_one_size(table, wanted[order])
    offsets, hashes = assembled(_delta_rows(table), wanted)
    chosen = table.select(_PLAIN).take(pa.array(wanted))
    engines, engine = _engines(chosen, namespace, endpoint)
    models, model = _numbered(chosen.column("model").to_pylist())
    return RequestWindow(
        span=span,
        engines=engines,
        models=models,
        engine=engine,
        model=model,
        block_tokens=block_tokens,
        chunk_tokens=chunk_tokens,
        at_unix_seconds=_array(chosen, "admitted_unix_seconds"),
        session=_array(chosen, "session"),
        prompt=_array(chosen, "prompt_tokens"),
        l0=_array(chosen, "l0_tokens"),
        l1=_array(chosen, "l1_tokens"),
        l2=_array(chosen, "l2_tokens"),
        external=_array(chosen, "external_tokens"),
        computed=_array(chosen, "computed_tokens"),
        queue_seconds=_array(chosen, "queue_seconds"),
        load_seconds=_array(chosen, "load_seconds"),
        ttft_seconds=_array(chosen, "ttft_seconds"),
        offsets=offsets,
        block_hashes=hashes,
    )


_PLAIN = [
    "admitted_unix_seconds", "replica", "rank", "model", "session", "prompt_tokens", "l0_tokens", "l1_tokens",
    "l2_tokens", "external_tokens", "computed_tokens", "queue_seconds", "load_seconds", "ttft_seconds",
]  # fmt: skip


def _array(table: pa.Table, name: str) -> NDArray[Any]:
    """A column as numpy; NULL becomes NaN (a column with NULLs must be one of numbers)."""
    array: NDArray[Any] = table.column(name).to_numpy()
    return array


def _of_one_size(table: pa.Table, wanted: Int64Array) -> tuple[Int64Array, int, int | None]:
    """Which of the wanted rows share the sizes in force at their end, and these sizes.

    A prompt shorter than a block has no blocks, whatever size was written down for it; and the chunk
    size of an engine's first requests may not be known yet.
    """
    if not len(wanted):
        return wanted, 0, None
    blocks, prompt, sizes = (
        _array(table, name)[wanted] for name in ("blocks", "prompt_tokens", "block_tokens")
    )
    block_tokens = sizes[blocks > 0][-1] if blocks.any() else sizes[-1]
    fits = (sizes == block_tokens) | ((blocks == 0) & (prompt < block_tokens))
    wanted, chunks = wanted[fits], _array(table, "chunk_tokens")[wanted[fits]].astype(float)
    said = chunks[~np.isnan(chunks)]
    if not len(said):
        return wanted, int(block_tokens), None
    return wanted[np.isnan(chunks) | (chunks == said[-1])], int(block_tokens), int(said[-1])


def _delta_rows(table: pa.Table) -> DeltaRows:
    parents = table.column("parent_id")
    parent = pc.fill_null(pc.index_in(parents, value_set=table.column("id")), -1)
    lists = table.column("new_hashes").combine_chunks()
    rows = DeltaRows(
        parent=parent.to_numpy().astype(np.int64),
        common=_array(table, "common_blocks").astype(np.int64),
        blocks=_array(table, "blocks").astype(np.int64),
        new_starts=lists.offsets.to_numpy()[:-1].astype(np.int64),
        new_hashes=lists.values.to_numpy(),
    )
    orphans = np.flatnonzero((rows.common > 0) & (rows.parent < 0))
    if len(orphans):
        raise StoreUnusable(
            f"the parent of request row {_array(table, 'id')[orphans[0]]} and of {len(orphans) - 1} others "
            "is not in the store",
            where="requests",
            fix="delete whole hours only; restore these rows' hours from a copy, or delete them",
        )
    return rows


def _engines(
    chosen: pa.Table, namespace: str, endpoint: str
) -> tuple[tuple[EngineId, ...], NDArray[np.int32]]:
    names = list(zip(chosen.column("replica").to_pylist(), chosen.column("rank").to_pylist(), strict=True))
    known, engine = _numbered(names)
    return tuple(EngineId(namespace, endpoint, replica, rank) for replica, rank in known), engine


def _numbered(names: Sequence[Name]) -> tuple[tuple[Name, ...], NDArray[np.int32]]:
    """The different names, sorted, and which of them each is."""
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return tuple(numbers), np.fromiter((numbers[name] for name in names), dtype=np.int32, count=len(names))
