"""Feed batches to bytes and back.

A batch is the msgpack array `[version, exporter, incarnation, sequence, at_unix_seconds, entries]`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NoReturn

import msgspec

from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.errors import BadInput
from tierscope.domain.events import LedgerEntry
from tierscope.domain.window import MOST_UNIX_SECONDS
from tierscope.feed.wire import WIRE_KINDS, WIRE_OF, EntryWire

VERSION = 1
"""Raised when an older reader could not read a batch; see `wire.py` for what needs no new version."""

MOST_UNKNOWN_KINDS = 32
"""Unknown kinds counted by name; any more are counted together."""

UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)

FIX = "check that the exporter and this reader are of the same release"


class _Versioned(msgspec.Struct, array_like=True):
    version: int


class _Envelope(msgspec.Struct, array_like=True):
    version: int
    exporter: str
    incarnation: int
    sequence: int
    at_unix_seconds: float
    entries: msgspec.Raw

    @property
    def position(self) -> FeedPosition:
        return FeedPosition(self.exporter, self.incarnation, self.sequence)


class _Batch(msgspec.Struct, array_like=True):
    version: int
    exporter: str
    incarnation: int
    sequence: int
    at_unix_seconds: float
    entries: list[EntryWire]


class _Tagged(msgspec.Struct, array_like=True):
    tag: str


_KINDS = {kind.__struct_config__.tag: kind for kind in WIRE_KINDS}
_ENCODER = msgspec.msgpack.Encoder()
_VERSIONED = msgspec.msgpack.Decoder(_Versioned)
_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)
_BATCH = msgspec.msgpack.Decoder(_Batch)
_RAW_ENTRIES = msgspec.msgpack.Decoder(list[msgspec.Raw])
_TAGGED = msgspec.msgpack.Decoder(_Tagged)
_ENTRIES = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in _KINDS.items()}


def encode_batch(batch: FeedBatch) -> bytes:
    """Return a batch as bytes; raises `BadInput` for a number beyond 64 bits."""
    position = batch.position
    try:
        entries = [WIRE_OF[type(entry)](entry) for entry in batch.entries]
        return _ENCODER.encode(
            _Batch(
                VERSION,
                position.exporter,
                position.incarnation,
                position.sequence,
                batch.at_unix_seconds,
                entries,
            )
        )
    except (OverflowError, UnicodeEncodeError) as error:
        raise BadInput(
            f"a feed batch cannot be written: {error}",
            where=f"batch {position.sequence} of exporter {position.exporter}",
            fix="report the engine release: hashes and counts have at most 64 bits, names are text",
        ) from error


def decode_batch(
    payload: bytes, *, unknown: Counter[str] | None = None, where: str = "feed batch"
) -> FeedBatch:
    """Return the batch of a payload; raises `BadInput` naming the field that cannot be read.

    Entries of a kind that this release does not know are left out and counted in `unknown` by kind.
    """
    try:
        batch = _BATCH.decode(payload)
        if batch.version == VERSION and _out_of_bounds(batch) is None:
            position = FeedPosition(batch.exporter, batch.incarnation, batch.sequence)
            return FeedBatch(
                position, batch.at_unix_seconds, tuple(entry.domain() for entry in batch.entries)
            )
    except (*UNREADABLE, BadInput):
        pass  # read again below, piece by piece: something is unknown, or we must say what is wrong
    return _decode_piecewise(payload, Counter() if unknown is None else unknown, where)


def read_position(payload: bytes, *, where: str = "feed batch") -> FeedPosition:
    """Return where in its feed a payload stands without reading its entries; raises `BadInput`."""
    return _envelope(payload, where).position


def _decode_piecewise(payload: bytes, unknown: Counter[str], where: str) -> FeedBatch:
    envelope = _envelope(payload, where)
    where = f"{where} {envelope.sequence} of exporter {envelope.exporter}"
    try:
        raw_entries = _RAW_ENTRIES.decode(envelope.entries)
    except UNREADABLE as error:
        _refuse(f"the entries cannot be read: {error}", where, error)
    entries: list[LedgerEntry] = []
    for number, raw in enumerate(raw_entries):
        entry = _decode_entry(raw, unknown, f"{where}, entry {number}")
        if entry is not None:
            entries.append(entry)
    return FeedBatch(envelope.position, envelope.at_unix_seconds, tuple(entries))


def _envelope(payload: bytes, where: str) -> _Envelope:
    try:
        version = _VERSIONED.decode(payload).version
        envelope = _ENVELOPE.decode(payload) if version == VERSION else None
    except UNREADABLE as error:
        _refuse(f"a feed batch cannot be read: {_named(error, _Envelope)}", where, error)
    if envelope is not None:
        if (wrong := _out_of_bounds(envelope)) is not None:
            raise BadInput(f"a feed batch cannot be stored: {wrong}", where=where, fix=FIX)
        return envelope
    raise BadInput(
        f"a feed batch has version {version}, this release reads version {VERSION}",
        where=where,
        fix="upgrade this process to the exporter's release, collectors first",
    )


def _out_of_bounds(header: _Envelope | _Batch) -> str | None:
    """Which number of a batch's header no store can hold. A time that is no number is mended later."""
    for name, number in (("incarnation", header.incarnation), ("sequence", header.sequence)):
        if not 0 <= number < 1 << 63:
            return f"`{name}` is {number}"
    if abs(header.at_unix_seconds) > MOST_UNIX_SECONDS:
        return f"`at_unix_seconds` is {header.at_unix_seconds}"
    return None


def _decode_entry(raw: msgspec.Raw, unknown: Counter[str], where: str) -> LedgerEntry | None:
    """Return the entry, None when its kind is unknown."""
    try:
        tag = _TAGGED.decode(raw).tag
    except UNREADABLE as error:
        _refuse(f"an entry names no kind: {error}", where, error)
    if tag not in _ENTRIES:
        unknown[tag if tag in unknown or len(unknown) < MOST_UNKNOWN_KINDS else "other"] += 1
        return None
    try:
        return _ENTRIES[tag].decode(raw).domain()
    except BadInput as error:
        raise BadInput(error.what, where=f"{where} ({tag})", fix=error.fix) from error
    except UNREADABLE as error:
        _refuse(
            f"an entry cannot be read: {_named(error, _KINDS[tag], tagged=True)}", f"{where} ({tag})", error
        )


def _named(error: Exception, kind: type[msgspec.Struct], *, tagged: bool = False) -> str:
    """The decoder's message, with the field's name for its place in the array."""

    def name(match: re.Match[str]) -> str:
        number = int(match[1]) - tagged
        names = kind.__struct_fields__
        return f"`{names[number]}" if 0 <= number < len(names) else match[0]

    return re.sub(r"`\$\[(\d+)\]", name, str(error), count=1)


def _refuse(what: str, where: str, cause: Exception) -> NoReturn:
    raise BadInput(what, where=where, fix=FIX) from cause
