"""A reader of one replayable stream: vLLM's KV events, the engine hook's records, our own feed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from tierscope.domain.errors import BadInput, BadSettings, TierscopeError
from tierscope.feed.curve import ClientKey
from tierscope.feed.frames import pack_sequence, read_live, read_replayed
from tierscope.feed.messages import Gap, Message, Restart, StreamCounters, StreamItem
from tierscope.feed.sequencer import Sequencer

__all__ = ["Gap", "Message", "Restart", "StreamCounters", "StreamItem", "StreamSubscriber", "wait"]

log = logging.getLogger(__name__)

BURST_MESSAGES = 1024
BURST_BYTES = 16 * 1024 * 1024
"""Most that one look at a socket takes from it, so that one answer of `receive` stays small."""

FIRST_QUIET_SECONDS = 1.0
LONGEST_QUIET_SECONDS = 30.0
"""A quiet stream is asked for missed messages after the first pause, then after ever longer ones."""

_LINKED = zmq.Event.HANDSHAKE_SUCCEEDED

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]


class StreamSubscriber:
    """Receives one stream in order, each message once, over any restart of its publisher.

    `start_sequence` is the first message wanted; `recognise` may check the payload before it (see
    `Sequencer`). `source` names the stream in logs. Without a `replay_endpoint` what the live path loses is
    a `Gap` at once; with one that is silent for `replay_timeout_seconds`, after that time.

    Memory is bounded whatever the caller does: `live_queue_messages` and `replay_queue_messages` wait in the
    sockets, `buffer_bytes` are held back while a replay runs; beyond that the live path drops, and a
    replay brings it back. No thread of its own: everything happens in `receive`, which one thread
    calls. `key` opens an encrypted stream. Raises `BadSettings` for an address that is none.
    """

    def __init__(  # noqa: PLR0913  one argument a duty; all but three have a good default
        self,
        endpoint: str,
        replay_endpoint: str | None,
        *,
        start_sequence: int = 0,
        source: str,
        topic: bytes = b"",
        context: Context | None = None,
        recognise: Callable[[bytes], bool] | None = None,
        replay_timeout_seconds: float = 5.0,
        buffer_bytes: int = 64 * 1024 * 1024,
        live_queue_messages: int = 10_000,
        replay_queue_messages: int = 20_000,
        monotonic: Callable[[], float] = time.monotonic,
        key: ClientKey | None = None,
    ) -> None:
        self.source = source
        self._endpoint = endpoint
        self._key = key
        self._connected_with = None if key is None else key.keys
        self._replay_endpoint = replay_endpoint
        self._replay_timeout_seconds = replay_timeout_seconds
        self._replay_queue_messages = replay_queue_messages
        self._monotonic = monotonic
        self._sequencer = Sequencer(
            start_sequence=start_sequence,
            can_replay=replay_endpoint is not None,
            buffer_bytes=buffer_bytes,
            recognise=recognise,
        )
        self._undecodable = self._replays = self._failed_replays = 0
        self._own_context = context is None
        self._context: Context = zmq.Context() if context is None else context
        self._live = self._context.socket(zmq.SUB)
        self._live.setsockopt(zmq.RCVHWM, live_queue_messages)
        self._live.setsockopt(zmq.RECONNECT_IVL_MAX, 2_000)
        self._live.setsockopt(zmq.SUBSCRIBE, topic)
        self._links = self._live.get_monitor_socket(_LINKED | zmq.Event.DISCONNECTED)
        self._connected = False
        self._dealer: Socket | None = None
        self._silent_since = self._monotonic()
        self._quiet_since = self._monotonic()
        self._quiet_seconds = FIRST_QUIET_SECONDS
        self._replay_answers = True
        self._closed = False
        try:
            self._connect(self._live, endpoint)
            if self._sequencer.wants_replay:
                self._ask_for_replay()
        except TierscopeError:
            self.close()
            raise

    def receive(self, timeout_seconds: float) -> list[StreamItem]:
        """Return what is next in the stream, waiting up to `timeout_seconds`; empty when nothing came.

        The list is bounded; call again for more.
        """
        deadline = self._monotonic() + timeout_seconds
        while True:
            self._look()
            items = self._sequencer.take()
            remaining_seconds = deadline - self._monotonic()
            if items or remaining_seconds <= 0:
                return items
            _poll(self.sockets, min(remaining_seconds, self.patience_seconds))

    @property
    def sockets(self) -> Sequence[Socket]:
        """The sockets to wait on at this moment; `receive` may change them."""
        sockets = [self._links]
        if not self._sequencer.full:
            sockets.append(self._live)
        if self._dealer is not None:
            sockets.append(self._dealer)
        return sockets

    @property
    def patience_seconds(self) -> float:
        """How long nothing needs to be done if no socket becomes ready."""
        now = self._monotonic()
        if self._dealer is not None:
            return max(0.0, self._silent_since + self._replay_timeout_seconds - now)
        return max(0.0, self._quiet_since + self._quiet_seconds - now)

    @property
    def connected(self) -> bool:
        """Whether the live path has a publisher at its other end, as of the last `receive`."""
        return self._connected

    @property
    def counters(self) -> StreamCounters:
        """What became of the stream so far."""
        return StreamCounters(
            **asdict(self._sequencer.tally),
            undecodable=self._undecodable,
            replays=self._replays,
            failed_replays=self._failed_replays,
        )

    def begin_anew(self) -> None:
        """Take the publisher for restarted, because its payloads say so, and ask for all it has.

        The restart is counted; no `Restart` is handed on, since it is the caller who knows.
        """
        self._sequencer.begin_anew()

    def close(self) -> None:
        """Free the sockets; calling it again does nothing. Not while another thread is in `receive`."""
        if self._closed:
            return
        self._closed = True
        self._drop_dealer()
        self._live.disable_monitor()
        self._links.close(linger=0)
        self._live.close(linger=0)
        if self._own_context:
            self._context.term()

    def _look(self) -> None:
        """Take what the sockets have, then do what became due."""
        replayed = self._look_at_replay()
        live = self._look_at_live()
        if replayed or live:
            self._quiet_since = self._monotonic()
            self._quiet_seconds = FIRST_QUIET_SECONDS
        self._look_at_clock()
        if self._dealer is not None and not self._sequencer.in_replay:
            self._drop_dealer()
        if self._dealer is None and self._sequencer.wants_replay:
            self._ask_for_replay()

    def _look_at_live(self) -> bool:
        """Take a burst of live messages; return whether there were any."""
        frames_list = [] if self._sequencer.full else list(_burst(self._live))
        # Read after the messages: a link event is queued before the first message of that link.
        for frames in _burst(self._links):
            self._connected = parse_monitor_message(frames)["event"] == _LINKED
            if self._connected:
                self._sequencer.reconnected()
        for frames in frames_list:
            try:
                self._sequencer.live(*read_live(frames, where=self.source))
            except BadInput as error:
                self._count_undecodable(error)
        return bool(frames_list)

    def _look_at_replay(self) -> bool:
        """Take a burst of replay answers; return whether one of them was news."""
        if self._dealer is None:
            return False
        received = self._sequencer.tally.received
        for frames in _burst(self._dealer):
            self._silent_since = self._monotonic()
            self._replay_answers = True
            try:
                answer = read_replayed(frames, where=f"{self.source} (replay)")
            except BadInput as error:
                self._count_undecodable(error)
                continue
            if answer is None:
                self._sequencer.replay_ended(complete=True)
                break
            self._sequencer.replayed(*answer)
        return self._sequencer.tally.received > received

    def _look_at_clock(self) -> None:
        """Give up a silent replay; look for missed messages when the stream is quiet."""
        now = self._monotonic()
        self._look_at_key()
        if self._dealer is not None:
            if now - self._silent_since >= self._replay_timeout_seconds:
                self._fail_replay()
        elif now - self._quiet_since >= self._quiet_seconds:
            self._quiet_since = now
            self._quiet_seconds = min(2 * self._quiet_seconds, LONGEST_QUIET_SECONDS)
            self._sequencer.check()

    def _fail_replay(self) -> None:
        self._failed_replays += 1
        level = logging.WARNING if self._replay_answers else logging.DEBUG
        log.log(level, "%s: its replay address %s is silent", self.source, self._replay_endpoint)
        self._replay_answers = False
        self._sequencer.replay_ended(complete=False)

    def _ask_for_replay(self) -> None:
        """Ask on a socket of its own, so that answers to an earlier question cannot mix in."""
        assert self._replay_endpoint is not None
        self._dealer = self._context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.RCVHWM, self._replay_queue_messages)
        self._connect(self._dealer, self._replay_endpoint)
        self._dealer.send_multipart([b"", pack_sequence(self._sequencer.begin_replay())])
        self._silent_since = self._monotonic()
        self._replays += 1

    def _look_at_key(self) -> None:
        """Connect anew where a key is another: what is published meanwhile is replayed."""
        if self._key is not None and (keys := self._key.keys) != self._connected_with:
            self._connected_with = keys
            self._live.disconnect(self._endpoint)
            self._connect(self._live, self._endpoint)

    def _connect(self, socket: Socket, endpoint: str) -> None:
        if self._key is not None:
            self._key.secure(socket)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            problem = TierscopeError(
                f"{self.source} cannot be read from {endpoint!r}: {error}",
                where=self.source,
                fix="give a ZMQ address to connect to, e.g. tcp://127.0.0.1:5557",
            )
            raise BadSettings([problem]) from error

    def _drop_dealer(self) -> None:
        if self._dealer is not None:
            self._dealer.close(linger=0)
            self._dealer = None

    def _count_undecodable(self, error: BadInput) -> None:
        """Count every unreadable frame, name the first and then ever fewer."""
        self._undecodable += 1
        if self._undecodable & (self._undecodable - 1) == 0:
            log.warning("unreadable frame %d: %s", self._undecodable, error.one_line())


class Waitable(Protocol):
    """A subscriber of a stream or of a feed."""

    @property
    def sockets(self) -> Sequence[Socket]:
        """The sockets to wait on."""

    @property
    def patience_seconds(self) -> float:
        """How long nothing needs to be done if no socket becomes ready."""


def wait(subscribers: Iterable[Waitable], timeout_seconds: float) -> None:
    """Wait until one of the subscribers may have something to do, so that one thread can serve many.

    Call `receive(0)` on each afterwards.
    """
    waiting = list(subscribers)
    patience_seconds = min((subscriber.patience_seconds for subscriber in waiting), default=timeout_seconds)
    sockets = [socket for subscriber in waiting for socket in subscriber.sockets]
    _poll(sockets, min(timeout_seconds, patience_seconds))


def _poll(sockets: Sequence[Socket], timeout_seconds: float) -> None:
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    poller.poll(max(0, math.ceil(timeout_seconds * 1000)))


def _burst(socket: Socket) -> Iterable[list[bytes]]:
    """Yield the multipart messages that are there, up to a bound."""
    size_bytes = 0
    for _ in range(BURST_MESSAGES):
        if size_bytes >= BURST_BYTES:
            return
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        size_bytes += sum(map(len, frames))
        yield frames
