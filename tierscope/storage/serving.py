"""A store's answers over a local socket: a collector serves, other processes read."""

from __future__ import annotations

import logging
import socket as sockets
import threading
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir
from typing import Concatenate, ParamSpec, TypeVar, cast

import zmq

from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.errors import StoreUnusable, TierscopeError
from tierscope.domain.events import SourceCoverage
from tierscope.domain.lake_settings import is_lake
from tierscope.domain.window import CoveredSamples, CoveredTokens, Evidence, RequestWindow, TimeSpan
from tierscope.storage.messages import (
    ORDERS,
    Frame,
    decode_answer,
    decode_question,
    encode_answer,
    encode_problem,
    encode_question,
)
from tierscope.storage.reader import Reader

log = logging.getLogger(__name__)

MOST_PATH_BYTES = zmq.IPC_PATH_MAX_LEN
"""The system's limit on the path of a local socket."""

_WORKERS = "inproc://workers"

Socket = zmq.Socket[bytes]

P = ParamSpec("P")
T = TypeVar("T")


def socket_path(store_path: str | Path, chosen: str | Path | None = None) -> Path:
    """Return where the collector of a store listens: the chosen path, or beside the store's file.

    Where the path beside the file would be too long for a socket, it is one in the system's folder for
    temporary files that follows from the file's path; so is that of a lake. Raises `StoreUnusable` for a
    chosen path too long.
    """
    if chosen is not None:
        path = Path(chosen).absolute()
        if len(bytes(path)) > MOST_PATH_BYTES:
            raise StoreUnusable(
                f"the path of the socket has {len(bytes(path))} bytes; the system allows {MOST_PATH_BYTES}",
                where=str(path),
                fix="choose a shorter socket_path",
            )
        return path
    store = Path(store_path).absolute()
    beside = store.with_name(f"{store.name}.sock")
    if not is_lake(store_path) and len(bytes(beside)) <= MOST_PATH_BYTES:
        return beside
    return Path(gettempdir()) / f"tierscope-{blake2b(bytes(store), digest_size=8).hexdigest()}.sock"


def somebody_listens(path: Path) -> bool:
    """Whether a living process listens on a local socket; a dead one leaves it lying."""
    with sockets.socket(sockets.AF_UNIX) as probe:
        return path.is_socket() and probe.connect_ex(str(path)) == 0


class StoreServer:
    """Answers the questions of `Reader` on a local socket, from threads of its own, until closed.

    With a `store` it also takes the orders of `Upkeep`. Several clients are served at a time. What is not a
    question is answered with an error or dropped; nothing a client sends stops the server. Raises
    `StoreUnusable` if the socket cannot be made.
    """

    def __init__(self, reader: Reader, path: str | Path, *, store: object = None, workers: int = 3) -> None:
        self.path = Path(path).absolute()
        _check_free(self.path)
        self._reader = reader
        self._store = store
        self._context: zmq.Context[Socket] = zmq.Context()
        front, back = self._context.socket(zmq.ROUTER), self._context.socket(zmq.DEALER)
        front.linger = back.linger = 0
        try:
            front.bind(f"ipc://{self.path}")
            self.path.chmod(0o600)
        except (zmq.ZMQError, OSError) as error:
            self._context.destroy(linger=0)
            raise StoreUnusable(
                f"the collector cannot listen: {error}",
                where=str(self.path),
                fix="choose a socket_path in a folder that can be written",
            ) from error
        back.bind(_WORKERS)
        self._threads = [threading.Thread(target=_pass_on, args=(front, back), name="store-server")]
        self._threads += [
            threading.Thread(target=self._work, name=f"store-worker-{n}") for n in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish the answers being worked on and stop listening; closing twice is fine."""
        self._context.term()
        for thread in self._threads:
            thread.join()
        self.path.unlink(missing_ok=True)

    def _work(self) -> None:
        socket = self._context.socket(zmq.REP)
        socket.linger = 0
        try:
            socket.connect(_WORKERS)
            while True:
                answer = self._answer(socket.recv_multipart())
                socket.send_multipart(answer, copy=False)
        except zmq.ContextTerminated:
            pass  # the server is closing
        finally:
            socket.close()

    def _answer(self, frames: list[bytes]) -> list[Frame]:
        try:
            method, arguments = decode_question(b"".join(frames))
            return encode_answer(getattr(self._answering(method), method)(*arguments))
        except TierscopeError as error:
            return encode_problem(error)
        except Exception as error:
            log.exception("a question could not be answered")
            return encode_problem(
                StoreUnusable(
                    f"the collector failed to answer: {error}",
                    where=str(self.path),
                    fix="see the collector's log, and report what it says",
                )
            )

    def _answering(self, method: str) -> object:
        if method not in ORDERS:
            return self._reader
        if self._store is None:
            raise StoreUnusable(
                "this process only answers questions about the store",
                where=str(self.path),
                fix="ask the collector that owns the store",
            )
        return self._store


def _check_free(path: Path) -> None:
    """Refuse a path that is in use: binding replaces whatever is there, be it the store itself.

    What a dead collector left is a socket on which nobody listens, and may be replaced.
    """
    if not path.exists():
        return
    if not path.is_socket():
        raise StoreUnusable(
            "the collector cannot listen: this is a file of another kind",
            where=str(path),
            fix="choose a socket_path where nothing is; nothing was changed",
        )
    if somebody_listens(path):
        raise StoreUnusable(
            "the collector cannot listen: another process does",
            where=str(path),
            fix="give each collector a socket_path of its own, or stop the other process",
        )


def _pass_on(front: Socket, back: Socket) -> None:
    try:
        zmq.proxy(front, back)
    except zmq.ContextTerminated:
        pass  # the server is closing
    finally:
        front.close()
        back.close()


class Caller:
    """Asks a collector over its local socket. Thread-safe.

    `ask` raises `StoreUnusable` when no collector listens, or none answers in time.
    """

    def __init__(self, path: str | Path, *, timeout_seconds: float) -> None:
        self._path = Path(path).absolute()
        self._timeout_seconds = timeout_seconds
        self._context: zmq.Context[Socket] = zmq.Context()

    def close(self) -> None:
        """Free the sockets, once the calls of other threads have ended; closing twice is fine."""
        self._context.term()

    def ask(self, method: str, *arguments: object) -> object:
        """Ask one question and return its answer; raises the error the collector answers with."""
        if not self._path.exists():
            raise StoreUnusable(
                "no collector listens",
                where=str(self._path),
                fix="start `tierscope collect`, or name its socket_path",
            )
        with self._context.socket(zmq.REQ) as socket:
            socket.linger = 0
            socket.connect(f"ipc://{self._path}")
            socket.send(encode_question(method, arguments))
            if not socket.poll(round(self._timeout_seconds * 1000)):
                raise StoreUnusable(
                    f"the collector does not answer within {self._timeout_seconds:g} s",
                    where=str(self._path),
                    fix="see whether `tierscope collect` still runs, and what its log says",
                )
            frames = [
                frame.buffer for frame in socket.recv_multipart(copy=False)
            ]  # decoding copies them once
            return decode_answer(method, frames, str(self._path))


class RemoteReader:
    """A `Reader` that asks a collector over its local socket. Thread-safe.

    Every method raises `StoreUnusable` when no collector listens, or none answers in time.
    """

    def __init__(self, path: str | Path, *, timeout_seconds: float = 30.0) -> None:
        self._caller = Caller(path, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """Free the sockets, once the calls of other threads have ended; closing twice is fine."""
        self._caller.close()

    def endpoints(self) -> tuple[tuple[str, str], ...]:
        """See `Reader`."""
        return self._ask(Reader.endpoints)

    def history(self, namespace: str, endpoint: str) -> TimeSpan | None:
        """See `Reader`."""
        return self._ask(Reader.history, namespace, endpoint)

    def totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        """See `Reader`."""
        return self._ask(Reader.totals, namespace, endpoint, span)

    def engine_totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        """See `Reader`."""
        return self._ask(Reader.engine_totals, namespace, endpoint, span)

    def window(self, namespace: str, endpoint: str, span: TimeSpan) -> RequestWindow:
        """See `Reader`."""
        return self._ask(Reader.window, namespace, endpoint, span)

    def samples(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredSamples:
        """See `Reader`."""
        return self._ask(Reader.samples, namespace, endpoint, span)

    def coverage(self, span: TimeSpan) -> tuple[SourceCoverage, ...]:
        """See `Reader`."""
        return self._ask(Reader.coverage, span)

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        """See `Reader`."""
        return self._ask(Reader.evidence, namespace, endpoint, span)

    def deployments(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[DeploymentSince, ...]:
        """See `Reader`."""
        return self._ask(Reader.deployments, namespace, endpoint, span)

    def latest_recommendation(self, namespace: str, endpoint: str) -> bytes | None:
        """See `Reader`."""
        return self._ask(Reader.latest_recommendation, namespace, endpoint)

    def recommendation_history(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[bytes, ...]:
        """See `Reader`."""
        return self._ask(Reader.recommendation_history, namespace, endpoint, span)

    def row_counts(self) -> Mapping[str, int]:
        """See `Reader`."""
        return self._ask(Reader.row_counts)

    def _ask(self, question: Callable[Concatenate[Reader, P], T], *arguments: P.args, **_: P.kwargs) -> T:
        return cast("T", self._caller.ask(question.__name__, *arguments))
