"""Lines of a trace file, plain or gzip-compressed, each with its number."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from tierscope.domain.errors import BadInput

MAX_LINE_BYTES = 64 * 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"

T = TypeVar("T")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
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


def decode_line(text: bytes | None, decoder: msgspec.json.Decoder[T], *, where: str, wish: str) -> T | None:
    """Decode a line; None for a blank one. Raises `BadInput`; `wish` says what a line should be."""
    if text is None:
        raise BadInput(
            "the compressed file is damaged or ends too early",
            where=where,
            fix="fetch it again, or --skip-bad to use what is before",
        )
    if not text.strip():
        return None
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message, _, place = str(error).partition(" - at `$.")
        missing = re.search(r"missing required field `(\w+)`", message)
        field = missing[1] if missing else place.rstrip("`")
        raise BadInput(
            f"not a request: {message}", where=f"{where}, field {field}" if field else where, fix=wish
        ) from error
