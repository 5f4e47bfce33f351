"""The Mooncake format: one JSON object a line, plain or gzip-compressed.

    {"timestamp": 27482, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, …]}

`timestamp` is milliseconds from the start, `hash_ids` the prompt's blocks in prefix order, the last one
maybe partial; Mooncake's own traces have 512 tokens a block.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace
from tierscope.traces.rows import Rows, trace_of

BLOCK_TOKENS = 512
MAX_LINE_BYTES = 64 * 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"


class Line(msgspec.Struct):
    """One request; fields that we do not know are ignored."""

    timestamp: int
    input_length: int
    output_length: int
    hash_ids: list[int]


def read_mooncake(path: Path, *, block_tokens: int = BLOCK_TOKENS, skip_bad: bool = False) -> Trace:
    """Read a Mooncake trace in file order; raises `BadInput` naming file, line and field.

    With `skip_bad`, lines that cannot be read or break a rule are left out and counted.
    """
    decode = msgspec.json.Decoder(Line).decode
    numbers: list[int] = []
    lines: list[Line] = []
    skipped = 0
    for number, text in _lines(path):
        try:
            if text is None:
                raise _cut_short(path, number)
            if text.strip():
                lines.append(decode(text))
                numbers.append(number)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if not skip_bad:
                raise _bad_line(path, number, str(error)) from error
            skipped += 1
        except BadInput:
            if not skip_bad:
                raise
            skipped += 1
    if not lines:
        raise BadInput("the trace holds no request", where=str(path), fix="name a Mooncake JSONL file")
    try:
        rows = _rows(numbers, lines)
    except OverflowError as error:
        raise BadInput(
            "a number beyond 64 bits", where=str(path), fix="look for the largest number"
        ) from error
    return trace_of(
        rows, name=str(path), unit="line", block_tokens=block_tokens, skip_bad=skip_bad, skipped=skipped
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield numbered lines; None in place of the rest of a compressed file that ends too early."""
    number = 0
    try:
        with path.open("rb") as plain:
            compressed = plain.read(2) == GZIP_MAGIC
        with gzip.open(path) if compressed else path.open("rb") as stream:
            while text := stream.readline(MAX_LINE_BYTES):
                number += 1
                yield number, text
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            yield number + 1, None
            return
        raise BadInput(
            f"the file cannot be read: {error.strerror or error}",
            where=str(path),
            fix="check path and permissions",
        ) from error
    except (EOFError, zlib.error):
        yield number + 1, None


def _cut_short(path: Path, number: int) -> BadInput:
    return BadInput(
        "the compressed file is damaged or ends too early",
        where=f"{path}, line {number}",
        fix="fetch it again, or --skip-bad to use what is before",
    )


def _bad_line(path: Path, number: int, reason: str) -> BadInput:
    message, _, place = reason.partition(" - at `$.")
    field = f", field {place.rstrip('`')}" if place else ""
    return BadInput(
        f"not a request: {message}",
        where=f"{path}, line {number}{field}",
        fix='write {"timestamp", "input_length", "output_length", "hash_ids"}, or --skip-bad',
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
        ids=np.fromiter((block for line in lines for block in line.hash_ids), np.int64, int(lengths.sum())),
    )
