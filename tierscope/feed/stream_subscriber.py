"""A reader of one replayable stream: vLLM's KV events, the engine hook's records, our own feed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Protocol

import zmq

from tierscope.domain.errors import BadInput, TierscopeError
from tierscope.feed.curve import ClientKey
from tierscope.feed.frames import read_live, read_replayed
from tierscope.feed.live_link import LiveLink
from tierscope.feed.messages import Gap, Message, Restart, StreamCounters, StreamItem
from tierscope.feed.reading_end import ReadingEnd
from tierscope.feed.replay_link import ReplayLink
from tierscope.feed.sequencer import Sequencer
from tierscope.feed.sockets import Context, Socket, poll

__all__ = ["Gap", "Message", "Restart", "StreamCounters", "StreamItem", "StreamSubscriber", "wait"]

log = logging.getLogger(__name__)

FIRST_QUIET_SECONDS = 1.0
LONGEST_QUIET_SECONDS = 30.0
"""A quiet stream is asked for missed messages after the first pause, then after ever longer ones."""


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
        self._monotonic = monotonic
        self._sequencer = Sequencer(
            start_sequence=start_sequence,
            can_replay=replay_endpoint is not None,
            buffer_bytes=buffer_bytes,
            recognise=recognise,
        )
        self.undecodable = 0
        """Frames that nobody could read, so far; also in `counters`."""
        self._quiet_since = monotonic()
        self._quiet_seconds = FIRST_QUIET_SECONDS
        self._closed = False
        self._own_context = context is None
        self._context: Context = zmq.Context() if context is None else context
        end = ReadingEnd(source, self._context, key, monotonic)
        self._live = LiveLink(end, endpoint, topic=topic, queue_messages=live_queue_messages)
        self._replay = ReplayLink(
            end,
            replay_endpoint,
            queue_messages=replay_queue_messages,
            timeout_seconds=replay_timeout_seconds,
        )
        try:
            self._live.open()
            self._ask_where_wanted()
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
            poll(self.sockets, min(remaining_seconds, self.patience_seconds))

    @property
    def sockets(self) -> Sequence[Socket]:
        """The sockets to wait on at this moment; `receive` may change them."""
        return [*self._live.sockets(with_messages=not self._sequencer.full), *self._replay.sockets]

    @property
    def patience_seconds(self) -> float:
        """How long nothing needs to be done if no socket becomes ready."""
        quiet_seconds = max(0.0, self._quiet_since + self._quiet_seconds - self._monotonic())
        next_seconds = self._replay.patience_seconds if self._replay.asking else quiet_seconds
        return min(next_seconds, self._live.patience_seconds)

    @property
    def connected(self) -> bool:
        """Whether the live path has a publisher at its other end, as of the last `receive`."""
        return self._live.connected

    @property
    def counters(self) -> StreamCounters:
        """What became of the stream so far."""
        return StreamCounters(
            **asdict(self._sequencer.tally),
            undecodable=self.undecodable,
            replays=self._replay.asked,
            failed_replays=self._replay.failed,
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
        self._replay.close()
        self._live.close()
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
        if not self._sequencer.in_replay:
            self._replay.close()
        self._ask_where_wanted()

    def _look_at_live(self) -> bool:
        """Take a burst of live messages; return whether there were any."""
        messages = [] if self._sequencer.full else self._live.messages()
        if self._live.look():
            self._sequencer.reconnected()
        for frames in messages:
            try:
                self._sequencer.live(*read_live(frames, where=self.source))
            except BadInput as error:
                self._count_undecodable(error)
        return bool(messages)

    def _look_at_replay(self) -> bool:
        """Take a burst of replay answers; return whether one of them was news."""
        received = self._sequencer.tally.received
        for frames in self._replay.answers():
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
        if self._replay.asking:
            if self._replay.is_silent():
                self._sequencer.replay_ended(complete=False)
        elif now - self._quiet_since >= self._quiet_seconds:
            self._quiet_since = now
            self._quiet_seconds = min(2 * self._quiet_seconds, LONGEST_QUIET_SECONDS)
            self._sequencer.check()

    def _ask_where_wanted(self) -> None:
        if self._sequencer.wants_replay and not self._replay.asking:
            self._replay.ask(self._sequencer.begin_replay())

    def _count_undecodable(self, error: BadInput) -> None:
        """Count every unreadable frame, name the first and then ever fewer."""
        self.undecodable += 1
        if self.undecodable & (self.undecodable - 1) == 0:
            log.warning("unreadable frame %d: %s", self.undecodable, error.one_line())


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
    poll(sockets, min(timeout_seconds, patience_seconds))
