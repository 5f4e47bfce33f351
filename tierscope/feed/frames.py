"""Frames of the replayable stream, as vLLM's KV-event publisher defines them.

Live (PUB): `[topic, sequence, payload]`. Replay request (DEALER to ROUTER): `["", first sequence]`. Replay
answer: `["", topic, sequence, payload]` each, releases before 0.26 without the topic; the last one has the
end sequence and an empty payload. A sequence is 8 bytes, big-endian, unsigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tierscope.domain.errors import BadInput

SEQUENCE_BYTES = 8
END = b"\xff" * SEQUENCE_BYTES
"""The sequence of the marker that ends a replay."""

LARGEST_SEQUENCE = 2**53 - 1
"""No stream comes this far: a larger number is damage, and would make as many messages missing."""


def pack_sequence(sequence: int) -> bytes:
    """Return the 8 bytes of a sequence number."""
    return sequence.to_bytes(SEQUENCE_BYTES, "big")


def read_live(frames: Sequence[bytes], *, where: str) -> tuple[int, bytes]:
    """Return (sequence, payload) of a live message; raises `BadInput` for anything else."""
    sequence, payload = _tail(frames, where)
    if sequence == END:
        _refuse("a live message has the sequence of a replay's end marker", where)
    return int.from_bytes(sequence, "big"), payload


def read_replayed(frames: Sequence[bytes], *, where: str) -> tuple[int, bytes] | None:
    """Return (sequence, payload) of a replay answer, None for the end marker; else raises `BadInput`.

    Read from the right end, because old releases leave out the topic.
    """
    sequence, payload = _tail(frames, where)
    if sequence != END:
        return int.from_bytes(sequence, "big"), payload
    if payload:
        _refuse(f"a replay's end marker carries {len(payload)} bytes", where)
    return None


def read_request(frames: Sequence[bytes], *, where: str) -> tuple[bytes, int]:
    """Return (peer, first sequence) of a replay request as a ROUTER receives it; else raises `BadInput`."""
    if len(frames) != 3 or frames[1]:
        _refuse(f"a replay request has {len(frames)} frames, not a peer, an empty one and a sequence", where)
    peer, _, sequence = frames
    _check_sequence(sequence, where)
    return peer, int.from_bytes(sequence, "big")


def _tail(frames: Sequence[bytes], where: str) -> tuple[bytes, bytes]:
    if len(frames) < 3:
        _refuse(f"a message has {len(frames)} frames, at least 3 are needed", where)
    sequence, payload = frames[-2:]
    _check_sequence(sequence, where)
    return sequence, payload


def _check_sequence(sequence: bytes, where: str) -> None:
    if len(sequence) != SEQUENCE_BYTES:
        _refuse(f"a sequence number has {len(sequence)} bytes, not {SEQUENCE_BYTES}", where)
    if sequence != END and int.from_bytes(sequence, "big") > LARGEST_SEQUENCE:
        _refuse(f"the sequence number {int.from_bytes(sequence, 'big')} cannot be meant", where)


def _refuse(what: str, where: str) -> NoReturn:
    raise BadInput(what, where=where, fix="check that the address is a KV-event, hook or feed publisher's")
