"""A stream that can be asked for its past: PUB for what is new, ROUTER for what was missed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import zmq

from tierscope.domain.errors import BadInput, BadSettings, TierscopeError
from tierscope.feed.curve import ServerLock
from tierscope.feed.door import Door
from tierscope.feed.frames import END, pack_sequence, read_request
from tierscope.feed.ring import Ring
from tierscope.feed.sockets import Context, Socket

log = logging.getLogger(__name__)

LIVE_QUEUE_MESSAGES = 10_000
"""Messages queued for one slow subscriber before the live path drops; replay brings them back."""

LINGER_MILLISECONDS = 500
"""How long closing may still deliver what was published last."""

BLOCKED_PAUSE_MILLISECONDS = 5
"""Pause before a peer with a full queue is tried again."""

MOST_REPLAYS = 256
"""Replays served at once; further requests are refused and their subscribers ask again."""


@dataclass(slots=True)
class _Replay:
    peer: bytes
    following: int
    end: int
    """The first sequence not to send: later ones travel on the live path."""


class StreamPublisher:
    """Publishes payloads with sequence numbers from 0 and replays the newest of them on request.

    `endpoint` and `replay_endpoint` are bound; a wildcard or port 0 is resolved in the properties of the
    same name. Every publisher starts its own sequence: a new one on the same address is a restart.
    `publish` may be called from any thread and never waits for a subscriber. The replayable past is bounded
    by `buffer_bytes`. With a `lock` both are encrypted, and open to those alone whom it knows. Raises
    `BadSettings` when an address cannot be bound.
    """

    def __init__(
        self,
        endpoint: str,
        replay_endpoint: str,
        *,
        topic: bytes = b"",
        buffer_bytes: int,
        context: Context | None = None,
        lock: ServerLock | None = None,
        live_queue_messages: int = LIVE_QUEUE_MESSAGES,
    ) -> None:
        self._own_context = context is None
        self._context: Context = zmq.Context() if context is None else context
        self._topic = topic
        self._ring = Ring(buffer_bytes)
        self._lock = threading.Lock()
        self._closed = False
        self._door = None if lock is None else Door(lock, self._context)
        self._pub = self._context.socket(zmq.PUB)
        self._router = self._context.socket(zmq.ROUTER)
        try:
            for socket in (self._router, self._pub):
                _prepare(socket, live_queue_messages)
            self.replay_endpoint = self._bind(self._router, replay_endpoint)
            self.endpoint = self._bind(self._pub, endpoint)
        except TierscopeError:
            self._release()
            raise
        self._pub.setsockopt(zmq.LINGER, LINGER_MILLISECONDS)
        wake_endpoint = f"inproc://stream-publisher-{id(self)}"
        self._wake = self._context.socket(zmq.PAIR)
        self._wake.bind(wake_endpoint)
        self._thread = threading.Thread(
            target=self._serve, args=(wake_endpoint,), name=f"replay {self.replay_endpoint}", daemon=True
        )
        self._thread.start()

    def publish(self, payload: bytes) -> int:
        """Publish one payload and return its sequence."""
        with self._lock:
            if self._closed:
                raise TierscopeError(
                    "a closed stream cannot publish", where=self.endpoint, fix="open a new StreamPublisher"
                )
            sequence = self._ring.append(payload)
            self._pub.send_multipart([self._topic, pack_sequence(sequence), payload])
            return sequence

    def close(self) -> None:
        """Stop serving and free both addresses; calling it again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.send(b"")
        self._thread.join()
        self._wake.close(linger=0)
        self._release()

    def _bind(self, socket: Socket, endpoint: str) -> str:
        """Bind, with a lock encrypted, and return the resolved address."""
        if self._door is not None:
            self._door.secure(socket)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise BadSettings(
                [
                    TierscopeError(
                        f"cannot publish on this address: {error}",
                        where=endpoint,
                        fix="use a free ZMQ address of this machine, e.g. tcp://127.0.0.1:*",
                    )
                ]
            ) from error
        bound = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        if self._door is not None:
            self._door.guard(socket, bound)
        return bound

    def _release(self) -> None:
        self._pub.close()
        self._router.close(linger=0)
        if self._door is not None:
            self._door.close()
        if self._own_context:
            self._context.term()

    def _serve(self, wake_endpoint: str) -> None:
        """Serve replays until woken to stop. Peers take turns, so a slow one delays nobody else."""
        stop = self._context.socket(zmq.PAIR)
        stop.connect(wake_endpoint)
        poller = zmq.Poller()
        poller.register(stop, zmq.POLLIN)
        poller.register(self._router, zmq.POLLIN)
        if self._door is not None:
            poller.register(self._door.gate, zmq.POLLIN)
        replays: deque[_Replay] = deque()
        pause_milliseconds: int | None = 0
        while True:
            try:
                ready = dict(poller.poll(pause_milliseconds))
                self._look_at_door(ready)
            except zmq.ContextTerminated:
                break  # whoever lent the context closed it under us
            if stop in ready:
                break
            if self._router in ready:
                self._accept(replays)
            sent = sum(self._send_some(replays) for _ in range(len(replays)))
            pause_milliseconds = self._patience if not replays else 0 if sent else BLOCKED_PAUSE_MILLISECONDS
        stop.close(linger=0)

    def _look_at_door(self, ready: Mapping[object, int]) -> None:
        """Answer who may connect, and bind anew where the key is another."""
        if self._door is None:
            return
        if self._door.gate in ready:
            self._door.answer()
        if self._door.exchange_is_due:
            with self._lock:
                self._door.exchange()

    @property
    def _patience(self) -> int | None:
        """Milliseconds after which something may be due though nobody asked; None for never."""
        return None if self._door is None else self._door.patience_milliseconds

    def _accept(self, replays: deque[_Replay]) -> None:
        frames = self._router.recv_multipart()
        try:
            peer, first = read_request(frames, where=self.replay_endpoint)
        except BadInput as error:
            log.warning("a replay request was not understood: %s", error.one_line())
            return
        if len(replays) >= MOST_REPLAYS:
            log.warning("a replay was refused, %d are being served on %s", MOST_REPLAYS, self.replay_endpoint)
            return
        with self._lock:
            replays.append(_Replay(peer, max(first, self._ring.oldest), self._ring.following))

    def _send_some(self, replays: deque[_Replay], most: int = 64) -> int:
        """Send up to `most` answers to the peer whose turn it is; return how many went out."""
        replay = replays.popleft()
        try:
            for sent in range(most):
                sequence, payload = self._answer(replay)
                self._router.send_multipart([replay.peer, b"", self._topic, sequence, payload], zmq.NOBLOCK)
                if sequence == END:
                    return sent + 1
                replay.following += 1
        except zmq.Again:
            replays.append(replay)
            return sent
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            log.debug("a replay ended early: its subscriber left %s", self.replay_endpoint)
            return most
        replays.append(replay)
        return most

    def _answer(self, replay: _Replay) -> tuple[bytes, bytes]:
        """Return the sequence and payload to send next. What left the ring meanwhile is skipped."""
        with self._lock:
            replay.following = max(replay.following, self._ring.oldest)
            payload = self._ring.get(replay.following) if replay.following < replay.end else None
        return (END, b"") if payload is None else (pack_sequence(replay.following), payload)


def _prepare(socket: Socket, live_queue_messages: int) -> None:
    if socket.type == zmq.PUB:
        socket.setsockopt(zmq.SNDHWM, live_queue_messages)
    else:
        # a full queue makes send fail instead of dropping an answer
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
