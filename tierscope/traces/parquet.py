"""Traces as Parquet: columns session, ts_ms, input_length, output_length, block_ids (list of whole numbers).

`session` is -1 where unknown. The file does not say its block size; it is told, or found: see
`block_tokens_of`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int64Array, Trace
from tierscope.traces.rows import Rows, trace_of

NUMBERS = ("session", "ts_ms", "input_length", "output_length")
BLOCK_SIZES = tuple(1 << power for power in range(3, 13))
"""Block sizes that are tried: powers of two from 8 to 4,096 tokens."""


def read_parquet(path: Path, *, block_tokens: int | None = None, skip_bad: bool = False) -> Trace:
    """Read a Parquet trace in file order; raises `BadInput` naming file, row and field."""
    rows = _rows(_table(path), path)
    if not len(rows.numbers):
        raise BadInput("the trace holds no request", where=str(path), fix="name a trace with requests")
    found = block_tokens_of(rows, str(path)) if block_tokens is None else block_tokens
    return trace_of(rows, name=str(path), unit="row", block_tokens=found, skip_bad=skip_bad)


def block_tokens_of(rows: Rows, where: str) -> int:
    """Find the block size: the power of two that fits most of the rows, and more of them than any other.

    A row of n blocks fits size B if floor(input / B) <= n <= ceil(input / B): traces differ in whether they
    keep a partial last block.
    """
    counts = np.diff(rows.offsets)
    fits = [
        int(np.sum((counts >= rows.input_tokens // size) & (counts <= -(-rows.input_tokens // size))))
        for size in BLOCK_SIZES
    ]
    best = max(fits)
    if 2 * best <= len(counts) or fits.count(best) > 1:
        raise BadInput(
            "the block size cannot be told from the rows", where=where, fix="say it with --block-tokens"
        )
    return BLOCK_SIZES[fits.index(best)]


def _table(path: Path) -> pa.Table:
    try:
        file = pq.ParquetFile(path)
        missing = [name for name in (*NUMBERS, "block_ids") if name not in file.schema_arrow.names]
        if missing:
            raise BadInput(
                f"the columns {', '.join(missing)} are missing",
                where=f"{path} (columns {', '.join(file.schema_arrow.names)})",
                fix="name a trace with session, ts_ms, input_length, output_length and block_ids",
            )
        return file.read([*NUMBERS, "block_ids"])
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"not a readable Parquet file: {error}", where=str(path), fix="fetch it again"
        ) from error


def _rows(table: pa.Table, path: Path) -> Rows:
    numbers = {name: _numbers(table, name, path) for name in NUMBERS}
    lists = table["block_ids"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    if not (pa.types.is_list(lists.type) and pa.types.is_integer(lists.type.value_type)) or lists.null_count:
        raise BadInput(
            f"block_ids holds {lists.type} with {lists.null_count} nulls",
            where=f"{path}, field block_ids",
            fix="write a list of whole numbers in every row",
        )
    offsets = lists.offsets.to_numpy().astype(np.int64)
    ids = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    return Rows(
        numbers=np.arange(1, len(table) + 1, dtype=np.int64),
        at_ms=numbers["ts_ms"],
        input_tokens=numbers["input_length"],
        output_tokens=numbers["output_length"],
        session=numbers["session"],
        offsets=offsets - offsets[0],
        ids=ids.astype(np.int64),
    )


def _numbers(table: pa.Table, name: str, path: Path) -> Int64Array:
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise BadInput(
            f"{name} holds {column.type} with {column.null_count} nulls",
            where=f"{path}, field {name}",
            fix="write a whole number in every row",
        )
    return np.asarray(column.to_numpy(), dtype=np.int64)
