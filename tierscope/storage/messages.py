"""Questions and answers between a collector and those who read its store, as frames of bytes.

A question is one frame: the msgpack array `[version, method, [arguments]]`. An answer is a frame `ok` or
`error`, a msgpack frame, and one raw frame for each array the value holds, so that arrays are never
copied into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.errors import BadInput, SourceUnreadable, StoreUnusable, TierscopeError
from tierscope.domain.events import SourceCoverage
from tierscope.domain.selection import Selection
from tierscope.domain.window import CoveredSamples, CoveredTokens, Evidence, RequestWindow, TimeSpan

VERSION = 2
"""Raised when a question or an answer of an older release could not be read."""

Frame = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Call:
    """One method of `Reader`: the types of its arguments and of its answer."""

    arguments: Any
    answer: Any


_ENDPOINT = tuple[str, str]
_SPAN = tuple[str, str, TimeSpan]

CALLS: Mapping[str, Call] = {
    "endpoints": Call(tuple[()], tuple[tuple[str, str], ...]),
    "history": Call(_ENDPOINT, TimeSpan | None),
    "totals": Call(_SPAN, CoveredTokens),
    "engine_totals": Call(_SPAN, CoveredTokens),
    "window": Call(_SPAN, RequestWindow),
    "samples": Call(_SPAN, CoveredSamples),
    "coverage": Call(tuple[TimeSpan], tuple[SourceCoverage, ...]),
    "evidence": Call(_SPAN, Evidence),
    "deployments": Call(_SPAN, tuple[DeploymentSince, ...]),
    "latest_recommendation": Call(_ENDPOINT, bytes | None),
    "recommendation_history": Call(_SPAN, tuple[bytes, ...]),
    "row_counts": Call(tuple[()], dict[str, int]),
}
"""Every question that can be asked over the socket: all of `Reader`."""

ORDERS: Mapping[str, Call] = {
    "backup": Call(tuple[str], int),
    "to_parquet": Call(tuple[str], dict[str, int]),
    "forget": Call(tuple[Selection], dict[str, int]),
}
"""What a collector's store can be told to do: all of `Upkeep`."""

_KNOWN = {**CALLS, **ORDERS}


class _Question(msgspec.Struct, array_like=True):
    version: int
    method: str
    arguments: msgspec.Raw


class _Problem(msgspec.Struct, array_like=True):
    kind: str
    what: str
    where: str
    fix: str


_OK, _ERROR = b"ok", b"error"
_KINDS = {kind.__name__: kind for kind in (BadInput, SourceUnreadable, StoreUnusable)}
_UNREADABLE = (msgspec.MsgspecError, TierscopeError, ValueError, IndexError, TypeError, RecursionError)


def encode_question(method: str, arguments: Sequence[object]) -> bytes:
    """Return a question as a frame."""
    encoded = msgspec.msgpack.encode(tuple(arguments))
    return msgspec.msgpack.encode(_Question(VERSION, method, msgspec.Raw(encoded)))


def decode_question(frame: bytes) -> tuple[str, tuple[object, ...]]:
    """Return a question's method and arguments; raises `BadInput` naming what is wrong with it."""
    try:
        question = msgspec.msgpack.decode(frame, type=_Question)
        call = _KNOWN[question.method]
        arguments: tuple[object, ...] = msgspec.msgpack.decode(question.arguments, type=call.arguments)
    except KeyError as error:
        raise BadInput(
            f"{error.args[0]!r} is not a question a store knows",
            where="the collector's socket",
            fix=f"ask one of {', '.join(_KNOWN)}",
        ) from error
    except _UNREADABLE as error:
        raise BadInput(
            f"a question cannot be read: {error}",
            where="the collector's socket",
            fix="use the release of the collector",
        ) from error
    return question.method, arguments


def encode_answer(answer: object) -> list[Frame]:
    """Return an answer as frames; the arrays in it must not change until they are sent."""
    arrays: list[Frame] = []

    def take_out(value: object) -> tuple[int, str]:
        if not isinstance(value, np.ndarray):
            raise NotImplementedError(type(value).__name__)
        arrays.append(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
        return len(arrays) - 1, value.dtype.str

    encoded = msgspec.msgpack.Encoder(enc_hook=take_out).encode(answer)
    return [_OK, encoded, *arrays]


def encode_problem(error: TierscopeError) -> list[Frame]:
    """Return an error as the frames of an answer."""
    kind = next((name for name, known in _KINDS.items() if isinstance(error, known)), StoreUnusable.__name__)
    return [_ERROR, msgspec.msgpack.encode(_Problem(kind, error.what, error.where, error.fix))]


def decode_answer(method: str, frames: Sequence[Frame], where: str) -> object:
    """Return the value of an answer, its arrays owned by the caller; raises the error it holds."""
    try:
        status, body, *arrays = frames
        if bytes(status) == _OK:
            answer: object = msgspec.msgpack.decode(
                body, type=_KNOWN[method].answer, dec_hook=_putting_in(arrays)
            )
            return answer
        problem = msgspec.msgpack.decode(body, type=_Problem)
    except _UNREADABLE as error:
        raise StoreUnusable(
            f"the collector's answer cannot be read: {error}",
            where=where,
            fix="use the release of the collector",
        ) from error
    raise _KINDS.get(problem.kind, StoreUnusable)(problem.what, where=problem.where, fix=problem.fix)


def _putting_in(arrays: Sequence[Frame]) -> Callable[[type, tuple[int, str]], NDArray[Any]]:
    def put_in(_: type, place: tuple[int, str]) -> NDArray[Any]:
        number, dtype = place
        return np.frombuffer(arrays[number], dtype=np.dtype(dtype)).copy()

    return put_in
