"""The lookup logs of LMCache: one JSON object a line, plain or gzip-compressed, with the chunks of a prompt.

    {"timestamp": 1795956659.49, "chunk_size": 64, "seq_len": 266, "chunk_hashes": ["0x…", …], …}
    {"timestamp": 1795956659.49, "lookup_id": "…", "chunk_hashes": ["0x…", …]}

The first is of a multiprocess server (`--lookup-hash-log-dir`), the second of LMCache inside an engine
(`enable_chunk_statistics` with the strategy `file_hash`), which tells neither the size of a chunk nor the
tail of a prompt that fills none: there a prompt is as long as its chunks. `timestamp` is unix seconds.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int64Array, Trace
from tierscope.domain.units import BLOCK_HASH_MASK
from tierscope.traces.lines import decode_line, numbered_lines
from tierscope.traces.rows import Dialect, Rows, no_request, trace_of

CHUNK_TOKENS = 256
"""LMCache's own size of a chunk, for logs that do not tell it."""

MARK = b'"chunk_hashes"'
"""What a line of such a log holds, and no line of another format does."""

DIALECT = Dialect(row="line", at="timestamp", blocks="chunk_hashes")


class Line(msgspec.Struct):
    """One lookup; fields that we do not know are ignored."""

    timestamp: float
    chunk_hashes: list[str]
    chunk_size: int | None = None
    seq_len: int | None = None


DECODER = msgspec.json.Decoder(Line)
WISH = 'write {"timestamp", "chunk_hashes"}, or --skip-bad'


def is_lookup_log(path: Path) -> bool:
    """Whether the first line of a file that says anything is one of such a log."""
    try:
        first = next((text for _, text in numbered_lines(path) if text is None or text.strip()), None)
    except BadInput:
        return False  # whoever reads it says what is wrong with it
    return first is not None and MARK in first


def read_lookup_log(path: Path, *, block_tokens: int | None = None, skip_bad: bool = False) -> Trace:
    """Read a lookup log in file order; raises `BadInput` naming file, line and field.

    `block_tokens` is used where the log does not tell the size of a chunk. With `skip_bad`, lines that cannot
    be read or break a rule are left out and counted.
    """
    numbers: list[int] = []
    lines: list[Line] = []
    hashes: list[list[int]] = []
    skipped = 0
    for number, text in numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            line = decode_line(text, DECODER, where=where, wish=WISH)
            chunks = [] if line is None else _numbers(line, where)
        except BadInput:
            if not skip_bad:
                raise
            skipped += 1
            continue
        if line is not None:
            numbers.append(number)
            lines.append(line)
            hashes.append(chunks)
    if not lines:
        raise no_request(str(path), skipped)
    size = _chunk_tokens(lines, block_tokens, path)
    rows = _rows(numbers, lines, hashes, size)
    return trace_of(rows, DIALECT, name=str(path), block_tokens=size, skip_bad=skip_bad, skipped=skipped)


def _numbers(line: Line, where: str) -> list[int]:
    """A line's chunks by the low 64 bits of their hashes, as block hashes are everywhere."""
    try:
        return [int(text, 16) & BLOCK_HASH_MASK for text in line.chunk_hashes]
    except ValueError as error:
        raise BadInput(
            f"not a hash: {error}",
            where=f"{where}, field chunk_hashes",
            fix="write hashes as hexadecimal numbers",
        ) from error


def _chunk_tokens(lines: list[Line], block_tokens: int | None, path: Path) -> int:
    """The one size of a chunk that a log has; raises `BadInput` where it has several."""
    sizes = {line.chunk_size for line in lines if line.chunk_size}
    if len(sizes) > 1:
        raise BadInput(
            f"chunks of {', '.join(map(str, sorted(sizes)))} tokens in one log",
            where=f"{path}, field chunk_size",
            fix="split the log where the server was started with another --chunk-size",
        )
    return sizes.pop() if sizes else block_tokens or CHUNK_TOKENS


def _rows(numbers: list[int], lines: list[Line], hashes: list[list[int]], chunk_tokens: int) -> Rows:
    n = len(lines)
    lengths = np.fromiter(map(len, hashes), np.int64, n)
    return Rows(
        numbers=np.array(numbers, dtype=np.int64),
        at_ms=_milliseconds(lines),
        input_tokens=np.fromiter(
            (
                max(1, len(chunks) * chunk_tokens) if line.seq_len is None else line.seq_len
                for line, chunks in zip(lines, hashes, strict=True)
            ),
            np.int64,
            n,
        ),
        output_tokens=np.zeros(n, np.int64),
        session=np.full(n, -1, np.int64),
        offsets=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
        ids=np.fromiter(chain.from_iterable(hashes), np.uint64).view(np.int64),
    )


def _milliseconds(lines: list[Line]) -> Int64Array:
    """Times from the first line on."""
    seconds = np.fromiter((line.timestamp for line in lines), np.float64, len(lines))
    milliseconds: Int64Array = np.rint((seconds - seconds[0]) * 1000).astype(np.int64)
    return milliseconds
