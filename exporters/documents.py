"""JSON documents of sources as typed structs; fields we do not ask for are skipped."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tierscope.domain.errors import SourceUnreadable

T = TypeVar("T")


def read_document(body: bytes, kind: type[T], *, where: str) -> T:
    """Read one JSON document; raises `SourceUnreadable` that names the field which is not as expected."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceUnreadable(
            f"an answer is not the document it should be: {error}",
            where=where,
            fix="check that the address is this source's; its release may be one we do not know",
        ) from error
