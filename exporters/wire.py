"""Decoding lists of msgpack items so that one strange item costs only itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import msgspec

from exporters.oddities import Oddity
from tierscope.domain.errors import BadInput

T = TypeVar("T")

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""A time or a duration that can be meant as one; neither negative, nor infinite, nor no number."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A number of tokens or records that one request or batch can have."""


UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""What decoding raises for bytes that are not what they should be; the second for nesting without end."""


class _MapTag(msgspec.Struct):
    """The two fields in which maps of our streams say what kind they are."""

    type: str | None = None
    t: str | None = None


class _ArrayTag(msgspec.Struct, array_like=True):
    """The first element of an array, in which it says what kind it is."""

    kind: str


_decode_map_tag = msgspec.msgpack.Decoder(_MapTag).decode
_decode_array_tag = msgspec.msgpack.Decoder(_ArrayTag).decode
_decode_raw_list = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def decode_each(
    items: Iterable[msgspec.Raw], decode: Callable[[msgspec.Raw], T], *, known: Iterable[str], where: str
) -> tuple[list[T], list[Oddity]]:
    """Decode items one by one; those that cannot be are returned as oddities, named by their kind.

    `known` are the kinds there are. `where` names the stream, for messages.
    """
    decoded: list[T] = []
    oddities: list[Oddity] = []
    for item in items:
        try:
            decoded.append(decode(item))
        except UNREADABLE as error:
            oddities.append(_oddity(_kind(item), error, set(known), where))
    return decoded, oddities


def decode_list(
    payload: bytes,
    decode_all: Callable[[bytes], list[T]],
    decode_one: Callable[[msgspec.Raw], T],
    *,
    known: Iterable[str],
    where: str,
) -> tuple[list[T], list[Oddity]]:
    """Decode a payload that is a list, at once where all of it is known, else item by item.

    Raises `BadInput` when the payload is no list.
    """
    try:
        return decode_all(payload), []
    except UNREADABLE:
        pass
    try:
        items = _decode_raw_list(payload)
    except UNREADABLE as error:
        raise undecodable(payload, error, where) from error
    return decode_each(items, decode_one, known=known, where=where)


def latest_time(records: Iterable[object]) -> float | None:
    """Return the latest time that records say something happened or ended at; None where none does."""
    times = (getattr(record, "ts", None) or getattr(record, "end", None) for record in records)
    return max((at for at in times if at is not None), default=None)


def _kind(item: msgspec.Raw) -> str | None:
    """What an item says it is."""
    try:
        tag = _decode_map_tag(item)
    except UNREADABLE:
        return _kind_of_array(item)
    return tag.type or tag.t


def _kind_of_array(item: msgspec.Raw) -> str | None:
    try:
        return _decode_array_tag(item).kind
    except UNREADABLE:
        return None


def _oddity(kind: str | None, error: Exception, known: set[str], where: str) -> Oddity:
    if kind is None:
        what, problem = "item without a kind", f"an item does not say what it is ({error})"
    elif kind in known:
        what, problem = f"unreadable {kind}", f"an item of kind {kind} cannot be read: {error}"
    else:
        what, problem = f"kind {kind[:40]}", f"the kind {kind[:40]!r} is not known"
    return Oddity(
        what, BadInput(problem, where=where, fix="this source may be newer than we know; report it")
    )


def undecodable(payload: bytes, error: Exception, where: str) -> BadInput:
    """The error for a payload of which nothing could be read."""
    return BadInput(
        f"a payload of {len(payload)} bytes cannot be read: {error}",
        where=where,
        fix="check that the address is this stream's; the rest of the stream is used",
    )
