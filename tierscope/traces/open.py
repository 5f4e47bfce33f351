"""Read a trace of any format we know; the file's first bytes say which it is."""

from __future__ import annotations

from pathlib import Path

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace

PARQUET_MAGIC = b"PAR1"


def read_trace(path: Path, *, block_tokens: int | None = None, skip_bad: bool = False) -> Trace:
    """Read a trace: Parquet, or Mooncake JSONL or a lookup log of LMCache, plain or gzip-compressed.

    `block_tokens` None: 512 for Mooncake, found from the rows for Parquet and in a lookup log that tells it,
    else 256. Raises `BadInput`.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(PARQUET_MAGIC))
    except OSError as error:
        raise BadInput(
            f"the trace cannot be read: {error.strerror or error}", where=str(path), fix="check the path"
        ) from error
    if magic == PARQUET_MAGIC:
        from tierscope.traces.parquet import read_parquet  # noqa: PLC0415  pyarrow takes a while to import

        return read_parquet(path, block_tokens=block_tokens, skip_bad=skip_bad)
    from tierscope.traces.lookup_log import is_lookup_log, read_lookup_log  # noqa: PLC0415

    if is_lookup_log(path):
        return read_lookup_log(path, block_tokens=block_tokens, skip_bad=skip_bad)
    from tierscope.traces.mooncake import BLOCK_TOKENS, read_mooncake  # noqa: PLC0415

    return read_mooncake(path, block_tokens=block_tokens or BLOCK_TOKENS, skip_bad=skip_bad)
