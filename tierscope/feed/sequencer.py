"""One ordered stream out of two paths: live messages that may be lost, and replays that bring them back.

Pure: no socket, no clock. `StreamSubscriber` feeds it what arrives and asks for a replay when it wants one.

**What is asked for.** A replay is asked from the last message delivered, not the one after it: that message
is the *anchor*. Its publisher proves with it that it is still the one we listened to. Another payload at that
sequence, or an answer that ends below it, means the publisher restarted in between, even where the first
sequence seen of its new life happens to fit. An anchor that left the publisher's ring proves nothing:
the loss is then reported as a gap, and so is a restart that published more than the ring holds.

**When it is asked for.** At the start, after every (re)connection, when a sequence is skipped, when a low
sequence comes that is no known duplicate, and when the stream was quiet for a while (the last message before
a pause may be the lost one). While the publisher's identity is in doubt nothing is delivered.

**What cannot be known.** Without a replay address a restart shows only as a low sequence: a publisher whose
new life was first seen beyond the old last sequence is taken for the old one after a gap. With one, the same
holds as long as its replay address does not answer. A life that published the very same bytes at the same
sequence as the one before it is taken for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tierscope.feed.messages import Gap, Message, Restart, StreamItem

REMEMBERED_MESSAGES = 4096
"""Delivered messages whose payload is remembered (as a hash), to tell a duplicate from a restart."""


@dataclass(slots=True)
class _Ask:
    """One replay in flight."""

    start: int
    anchored: bool
    doubt: int
    """The number of the doubt it was asked in; a later doubt is not settled by it."""
    lowest_ahead: int | None
    doubted_before: int
    next_before: int
    first: int | None = None
    newest: int | None = None
    holed: bool = False
    """An answer was skipped; what follows is asked for again."""


@dataclass(slots=True)
class Tally:
    """Counts that only the sequencer can make; see `StreamCounters`."""

    received: int = 0
    missing: int = 0
    restarts: int = 0
    duplicates: int = 0
    strays: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None


@dataclass(slots=True)
class Sequencer:
    """Puts the messages of one stream in order, each once, and says what is lost.

    `start_sequence` is the first one wanted; the one before it counts as delivered to whoever asks, and
    `recognise` may check that the publisher still has the same payload there. `buffer_bytes` bounds what
    is held back: when `full`, the live path must wait.
    """

    start_sequence: int = 0
    can_replay: bool = True
    buffer_bytes: int = 64 * 1024 * 1024
    recognise: Callable[[bytes], bool] | None = None
    tally: Tally = field(default_factory=Tally)
    _next: int = 0
    _ready: list[StreamItem] = field(default_factory=list)
    _ahead: dict[int, bytes] = field(default_factory=dict)
    _doubted: list[tuple[int, bytes]] = field(default_factory=list)
    _held_bytes: int = 0
    _hashes: dict[int, int] = field(default_factory=dict)
    _doubts: int = 0
    _in_doubt: bool = False
    _suspicious: bool = False
    """The doubt comes from a low sequence: a restart unless the anchor is confirmed."""
    _wanted: bool = False
    _ask: _Ask | None = None
    _joining: bool = False
    """No replay has ended yet, so what was published before us may still come."""
    _first_live: int | None = None
    _replays_hold: bool = False
    """The publisher has replayed something once, so an empty answer means something."""

    def __post_init__(self) -> None:
        self._next = self.start_sequence
        self._replays_hold = self.recognise is not None
        self._wanted = self._joining = self.can_replay
        if self.can_replay and self.start_sequence > 0:
            self._begin_doubt()

    # What the subscriber asks.

    @property
    def wants_replay(self) -> bool:
        """Whether a replay should be asked for now."""
        return self._wanted and self._ask is None

    @property
    def in_replay(self) -> bool:
        """Whether the answers of the replay in flight are still of use."""
        return self._ask is not None

    @property
    def full(self) -> bool:
        """Whether so much is held back that the live path must wait."""
        return self._held_bytes >= self.buffer_bytes

    def take(self) -> list[StreamItem]:
        """Return what became ready, in order."""
        ready, self._ready = self._ready, []
        return ready

    def begin_replay(self) -> int:
        """Note that a replay is asked for, and return the sequence to ask from."""
        self._wanted = False
        self._ask = _Ask(
            start=max(self._next - 1, 0),
            anchored=self._next > 0,
            doubt=self._doubts,
            lowest_ahead=min(self._ahead, default=None),
            doubted_before=len(self._doubted),
            next_before=self._next,
        )
        return self._ask.start

    # What the subscriber tells.

    def check(self) -> None:
        """Ask whether anything was missed, for instance after a quiet while."""
        self._wanted = self.can_replay

    def reconnected(self) -> None:
        """Note that the live path was (re)connected: messages were missed, perhaps by a restart.

        A replay in flight may have been asked of a publisher that is gone: it is asked anew. What is held
        in doubt is dropped: it may be of a life that came and went in between.
        """
        if not self.can_replay:
            return
        self._ask = None
        self._wanted = True
        self._take_doubted()
        if self._next > 0:
            self._begin_doubt()
        else:
            self._drop_ahead()

    def begin_anew(self) -> None:
        """Take the publisher for restarted on its payloads' word; whatever is held is asked for again."""
        self._take_doubted()
        self._drop_ahead()
        self._restart(ahead_is_old=False)
        self._ready.clear()

    def live(self, sequence: int, payload: bytes) -> None:
        """Take a message of the live path."""
        if self._first_live is None:
            self._first_live = sequence
        if self._in_doubt:
            self._hold_doubted(sequence, payload)
        elif sequence == self._next:
            self._deliver(sequence, payload)
        elif sequence > self._next:
            self._hold_ahead(sequence, payload)
        elif self._is_duplicate(sequence, payload):
            self.tally.duplicates += 1
        elif self.can_replay:
            self._begin_doubt()
            self._hold_doubted(sequence, payload)
        else:
            self._restart(ahead_is_old=True)
            self.live(sequence, payload)

    def replayed(self, sequence: int, payload: bytes) -> None:
        """Take an answer of the replay in flight."""
        ask = self._ask
        if ask is None or sequence < ask.start:
            return
        self._replays_hold = True
        ask.newest = sequence if ask.newest is None else max(sequence, ask.newest)
        if ask.first is None:
            ask.first = sequence
            self._first_answer(ask, sequence, payload)
        elif sequence == self._next:
            self._deliver(sequence, payload)
        elif sequence > self._next:
            self._beyond_hole(ask, sequence, payload)

    def replay_ended(self, *, complete: bool) -> None:
        """Note the end of the replay in flight; `complete` when its end marker came."""
        ask, self._ask = self._ask, None
        if ask is None:
            return
        self._joining &= not complete or ask.holed
        if complete and ask.first is None and ask.anchored and self._replays_hold:
            self._restart(ahead_is_old=self._in_doubt)  # its newest is older than one we hold from it
            return
        if self._in_doubt and ask.doubt == self._doubts:
            if self._suspicious:
                self._restart(ahead_is_old=True)
                return
            self._end_doubt(len(self._doubted))
        if ask.holed:
            self._wanted = True
        elif self._ahead:
            self._settle_ahead(ask, complete=complete)

    # Answers.

    def _first_answer(self, ask: _Ask, sequence: int, payload: bytes) -> None:
        """Judge by the first answer whether the publisher is the same and how far back its ring goes."""
        if ask.anchored and sequence == ask.start:
            if not self._is_anchor(sequence, payload):
                self._restart(ahead_is_old=self._in_doubt)
            elif self._in_doubt and ask.doubt == self._doubts:
                self._end_doubt(ask.doubted_before)
            return
        if self._suspicious and ask.doubt == self._doubts:
            self._restart(ahead_is_old=True)
            return
        self._skip_to(sequence)
        if sequence == self._next:
            self._deliver(sequence, payload)

    def _is_anchor(self, sequence: int, payload: bytes) -> bool:
        known = self._hashes.get(sequence)
        if known is not None:
            return known == hash(payload)
        if self.recognise is not None and sequence == self.start_sequence - 1 and not self.tally.restarts:
            return self.recognise(payload)
        return True

    def _beyond_hole(self, ask: _Ask, sequence: int, payload: bytes) -> None:
        """Take an answer that skips a message.

        A publisher drops answers when a reader's queue is full. Right after the anchor the queue was empty:
        such a hole is in its ring, and lost. Any other is asked for again, from its edge.
        """
        if ask.holed or self._next > ask.next_before:
            ask.holed = True
            return
        self._skip_to(sequence)
        if sequence == self._next:
            self._deliver(sequence, payload)

    def _settle_ahead(self, ask: _Ask, *, complete: bool) -> None:
        """Decide about live messages beyond a hole that the replay did not close."""
        lowest = min(self._ahead)
        if not complete:
            if self._next > ask.next_before:
                self._wanted = True
            else:
                self._skip_to(max(self._ahead) + 1)
        elif lowest != ask.lowest_ahead:
            self._wanted = True  # it came after the question, which could not have covered it
        elif ask.newest is None:
            self._skip_to(lowest)
        else:
            self._held_bytes -= len(self._ahead.pop(lowest))
            self.tally.strays += 1  # received before the question, and its publisher does not know it
        self._wanted = self._wanted or bool(self._ahead)

    # Doubt: is it still the same publisher?

    def _begin_doubt(self) -> None:
        self._doubts += 1
        self._in_doubt = True
        self._wanted = True

    def _end_doubt(self, vouched: int) -> None:
        """Go on with the same publisher. The first `vouched` held messages are surely its own."""
        doubted = self._take_doubted()
        for sequence, payload in doubted[:vouched]:
            if sequence >= self._next:
                self.live(sequence, payload)
            else:
                self.tally.duplicates += 1
        for sequence, payload in doubted[vouched:]:
            self.live(sequence, payload)

    def _restart(self, *, ahead_is_old: bool) -> None:
        """Close the old life and begin the new one at 0.

        Messages held beyond a hole are the old life's last ones when they came before the first sign of the
        new one. Else they may be of either; the new one replays its own.
        """
        if ahead_is_old:
            self._skip_to(max(self._ahead, default=-1) + 1)
        self._drop_ahead()
        self._hashes.clear()
        self._ready.append(Restart())
        self._joining = False
        self.tally.restarts += 1
        self.tally.first_sequence = self.tally.last_sequence = None
        self._next = 0
        self._ask = None
        self._wanted = self.can_replay
        for sequence, payload in self._take_doubted():
            self.live(sequence, payload)

    def _take_doubted(self) -> list[tuple[int, bytes]]:
        doubted, self._doubted = self._doubted, []
        self._held_bytes -= sum(len(payload) for _, payload in doubted)
        self._in_doubt = self._suspicious = False
        return doubted

    # Order.

    def _is_duplicate(self, sequence: int, payload: bytes) -> bool:
        return self._hashes.get(sequence) == hash(payload)

    def _hold_doubted(self, sequence: int, payload: bytes) -> None:
        self._doubted.append((sequence, payload))
        self._held_bytes += len(payload)
        if sequence >= self._next or self._is_duplicate(sequence, payload):
            return
        self._suspicious = True
        if sequence in self._hashes:  # two payloads of one sequence: no need to ask
            self._restart(ahead_is_old=True)

    def _hold_ahead(self, sequence: int, payload: bytes) -> None:
        if sequence in self._ahead:
            self.tally.duplicates += 1
            return
        self._ahead[sequence] = payload
        self._held_bytes += len(payload)
        self._wanted = self.can_replay
        if not self.can_replay:
            self._skip_to(sequence)

    def _deliver(self, sequence: int, payload: bytes) -> None:
        """Hand on the next message and whatever was held for its sake."""
        self._emit(sequence, payload)
        if self._ahead:
            self._drain_ahead()

    def _emit(self, sequence: int, payload: bytes) -> None:
        before = self._joining and (self._first_live is None or sequence < self._first_live)
        self._ready.append(Message(sequence, payload, before))
        self._next = sequence + 1
        self._hashes[sequence] = hash(payload)
        self._hashes.pop(sequence - REMEMBERED_MESSAGES, None)
        self.tally.received += 1
        self.tally.last_sequence = sequence
        if self.tally.first_sequence is None:
            self.tally.first_sequence = sequence

    def _drop_ahead(self) -> None:
        self._held_bytes -= sum(map(len, self._ahead.values()))
        self._ahead.clear()

    def _drain_ahead(self) -> None:
        while (payload := self._ahead.pop(self._next, None)) is not None:
            self._held_bytes -= len(payload)
            self._emit(self._next, payload)

    def _skip_to(self, target: int) -> None:
        """Give up what is missing below `target`, delivering what is held of it and right after it."""
        held = sorted(sequence for sequence in self._ahead if sequence < target)
        for upto in (*held, target):
            if upto > self._next:
                self._ready.append(Gap(self._next, upto - 1))
                self.tally.missing += upto - self._next
                self._next = upto
            self._drain_ahead()
