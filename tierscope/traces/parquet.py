"""Traces as Parquet: columns session, ts_ms, input_length, output_length, block_ids (list of whole numbers).

`session` is -1 where unknown. The file does not say its block size; it is told, or found: see
`block_tokens_of`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array, Trace
from tierscope.traces.rows import Dialect, Mask, Rows, Rule, no_request, trace_of

DIALECT = Dialect(row="row", at="ts_ms", blocks="block_ids")
NUMBERS = ("session", "ts_ms", "input_length", "output_length")
COLUMNS = (*NUMBERS, "block_ids")
BATCH_ROWS = 256
BLOCK_SIZES = tuple(1 << power for power in range(3, 13))
"""Block sizes that are tried: powers of two from 8 to 4,096 tokens."""


def read_parquet(path: Path, *, block_tokens: int | None = None, skip_bad: bool = False) -> Trace:
    """Read a Parquet trace in file order; raises `BadInput` naming file, row and field.

    With `skip_bad`, rows that miss a value or break a rule are left out and counted.
    """
    rows, unreadable = _read(path)
    return trace_of(
        rows,
        DIALECT,
        name=str(path),
        block_tokens=block_tokens_of(rows, str(path)) if block_tokens is None else block_tokens,
        skip_bad=skip_bad,
        unreadable=unreadable,
    )


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


def _read(path: Path) -> tuple[Rows, list[Rule]]:
    """Rows as arrays, and one rule a column that each row has a value there."""
    parts = _parts(path)
    if not parts:
        raise no_request(str(path))
    absent = np.concatenate([part.absent for part in parts], axis=1)
    return _rows(parts), [_absent_rule(name, rows) for name, rows in zip(COLUMNS, absent, strict=True)]


class Part(NamedTuple):
    """A few hundred rows as arrays. Shapes (rows,), `ids` (accesses,); what is absent is 0."""

    numbers: tuple[Int64Array, ...]
    """One array for each of NUMBERS."""
    lengths: Int64Array
    ids: Int32Array | Int64Array
    absent: Mask
    """Rows that miss a value, (columns, rows), for each of COLUMNS."""


def _parts(path: Path) -> list[Part]:
    """Read our columns, each of a type that can be read, in small batches: Arrow's take much memory."""
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
        missing = [name for name in COLUMNS if name not in schema.names]
        if missing:
            raise BadInput(
                f"the columns {', '.join(missing)} are missing",
                where=f"{path} (columns {', '.join(schema.names)})",
                fix=f"name a trace with {', '.join(COLUMNS)}",
            )
        for name in COLUMNS:
            _require_whole_numbers(schema.field(name), path)
        batches = file.iter_batches(batch_size=BATCH_ROWS, columns=list(COLUMNS), use_threads=False)
        return [_part(batch) for batch in batches]
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"not a readable Parquet file: {error}", where=str(path), fix="fetch it again"
        ) from error


def _require_whole_numbers(field: pa.Field, path: Path) -> None:
    lists = field.name == "block_ids"
    is_list = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
    if lists == is_list and pa.types.is_integer(field.type.value_type if lists else field.type):
        return
    raise BadInput(
        f"{field.name} holds {field.type}",
        where=f"{path}, field {field.name}",
        fix=f"write {'a list of whole numbers' if lists else 'a whole number'} in every row",
    )


def _part(batch: pa.RecordBatch) -> Part:
    lists = batch.column("block_ids")
    ids = lists.flatten()
    absent = np.stack([batch.column(name).is_null().to_numpy(zero_copy_only=False) for name in COLUMNS])
    if ids.null_count:
        absent[-1, pc.list_parent_indices(lists).filter(ids.is_null()).to_numpy()] = True
    return Part(
        numbers=tuple(_whole(batch.column(name)) for name in NUMBERS),
        lengths=_whole(pc.list_value_length(lists)),
        ids=_whole(ids).astype(np.int32) if ids.type == pa.int32() else _whole(ids),
        absent=absent,
    )


def _whole(numbers: pa.Array) -> Int64Array:
    """Numbers as int64, 0 where one is absent; those of uint64 keep their 64 bits."""
    return np.asarray(numbers.fill_null(0)).astype(np.int64)


def _rows(parts: list[Part]) -> Rows:
    lengths = np.concatenate([part.lengths for part in parts])
    columns = zip(*(part.numbers for part in parts), strict=True)
    session, at_ms, prompt, output = (np.concatenate(column) for column in columns)
    return Rows(
        numbers=np.arange(1, len(lengths) + 1, dtype=np.int64),
        at_ms=at_ms,
        input_tokens=prompt,
        output_tokens=output,
        session=session,
        offsets=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
        ids=np.concatenate([part.ids for part in parts]),
    )


def _absent_rule(name: str, rows: Mask) -> Rule:
    return Rule(rows, name, lambda _row: f"{name} has no value", "write whole numbers alone")
