"""The Mooncake format: one JSON object a line, plain or gzip-compressed.

    {"timestamp": 27482, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, …]}

`timestamp` is milliseconds from the start, `hash_ids` the prompt's blocks in prefix order, the last one
maybe partial; Mooncake's own traces have 512 tokens a block.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int64Array, Trace
from tierscope.domain.units import BLOCK_HASH_MASK
from tierscope.traces.lines import decode_line, numbered_lines
from tierscope.traces.rows import Dialect, Rows, no_request, trace_of

BLOCK_TOKENS = 512
DIALECT = Dialect(row="line", at="timestamp", blocks="hash_ids")

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Line(msgspec.Struct):
    """One request; fields that we do not know are ignored."""

    timestamp: Number
    input_length: Number
    output_length: Number
    hash_ids: list[int]


DECODER = msgspec.json.Decoder(Line)
WISH = 'write {"timestamp", "input_length", "output_length", "hash_ids"}, or --skip-bad'


def read_mooncake(path: Path, *, block_tokens: int = BLOCK_TOKENS, skip_bad: bool = False) -> Trace:
    """Read a Mooncake trace in file order; raises `BadInput` naming file, line and field.

    With `skip_bad`, lines that cannot be read or break a rule are left out and counted.
    """
    numbers: list[int] = []
    lines: list[Line] = []
    skipped = 0
    for number, text in numbered_lines(path):
        try:
            line = decode_line(text, DECODER, where=f"{path}, line {number}", wish=WISH)
        except BadInput:
            if not skip_bad:
                raise
            skipped += 1
            continue
        if line is not None:
            numbers.append(number)
            lines.append(line)
    if not lines:
        raise no_request(str(path), skipped)
    return trace_of(
        _rows(numbers, lines),
        DIALECT,
        name=str(path),
        block_tokens=block_tokens,
        skip_bad=skip_bad,
        skipped=skipped,
    )


def _rows(numbers: list[int], lines: list[Line]) -> Rows:
    n = len(lines)
    lengths = np.fromiter((len(line.hash_ids) for line in lines), np.int64, n)
    return Rows(
        numbers=np.array(numbers, dtype=np.int64),
        at_ms=np.fromiter((line.timestamp for line in lines), np.int64, n),
        input_tokens=np.fromiter((line.input_length for line in lines), np.int64, n),
        output_tokens=np.fromiter((line.output_length for line in lines), np.int64, n),
        session=np.full(n, -1, np.int64),
        offsets=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
        ids=_ids(lines),
    )


def _ids(lines: list[Line]) -> Int64Array:
    """All block ids; those beyond 64 bits count by their low 64 bits, as block hashes do everywhere."""
    try:
        return np.fromiter(chain.from_iterable(line.hash_ids for line in lines), np.int64)
    except OverflowError:
        hashes = (block & BLOCK_HASH_MASK for line in lines for block in line.hash_ids)
        return np.fromiter(hashes, np.uint64).view(np.int64)
