"""From the scheduler's thread to the wire, without ever keeping the scheduler waiting."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import zmq

from tierscope_probe.errors import ErrorCount
from tierscope_probe.hashes import DeltaEncoder
from tierscope_probe.records import Draft, Record
from tierscope_probe.settings import ProbeSettings, at_rank
from tierscope_probe.stream import Stream, write_addresses

PAUSE_MILLISECONDS = 80
"""Longest wait of a record for its batch."""
RECORDS_A_BATCH = 32
"""Small, because encoding holds the interpreter's lock that the scheduler also wants."""
STATS_SECONDS = 1.0
HEARTBEAT_SECONDS = 10.0
REBIND_SECONDS = 5.0


class Sender:
    """Takes records from one thread and publishes them from its own.

    `offer` costs an append: when `queue_records` are waiting, the record is dropped and counted. Sockets are
    opened by the sender's thread; an address that cannot be bound is an error counted, and tried again
    every few seconds while the newest records wait in the ring. `stats` is asked for a record about once a
    second while anything happens, else as a heartbeat.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        *,
        form: str,
        rank: int,
        stats: Callable[[], Record | list[Record]],
        errors: ErrorCount,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._form = form
        self._rank = rank
        self._stats = stats
        self._errors = errors
        self._monotonic = monotonic
        self._queue: deque[Draft] = deque()
        self._stream = Stream(
            at_rank(settings.endpoint, rank),
            at_rank(settings.replay_endpoint, rank),
            ring_bytes=settings.ring_bytes,
        )
        self._delta = DeltaEncoder()
        self._encoder = msgspec.msgpack.Encoder(enc_hook=str)
        self._greeting: Record | None = None
        self._greeted = True
        self._epoch_bytes = 0
        self._bind_after = self._stats_after = float("-inf")
        self._told = (0, 0, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tierscope-probe", daemon=True)
        self._refused = self._lost = 0
        self.sent = 0
        self.encode_ns = 0

    def start(self) -> None:
        """Start the thread. Call it in the process that will send, after any fork."""
        self._thread.start()

    def introduce(self, greeting: Record) -> None:
        """Set the record that opens the stream and every epoch of it."""
        self._greeting = greeting
        self._greeted = False

    def offer(self, draft: Draft) -> None:
        """Hand over a record's draft; from one thread only. Never waits, never raises."""
        if len(self._queue) >= self._settings.queue_records:
            self._refused += 1
        else:
            self._queue.append(draft)

    @property
    def dropped(self) -> int:
        """Records that were not sent and never will be."""
        return self._refused + self._lost

    @property
    def waiting(self) -> int:
        """Records in line: none when everything offered so far was published."""
        return len(self._queue)

    def close(self, timeout_seconds: float = 1.0) -> None:
        """Send what is waiting and free the addresses; gives up after the timeout."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._safely("publish", self._turn)
        self._safely("publish the last records", self._publish_waiting)
        self._safely("close its sockets", self._stream.close)

    def _safely(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  nothing in here may end the engine or its stream
            self._errors.add(what, error)
            self._stop.wait(PAUSE_MILLISECONDS / 1000)

    def _turn(self) -> None:
        if not self._stream.is_open and self._monotonic() >= self._bind_after:
            self._open()
        if self._stream.is_open:
            self._stream.serve(PAUSE_MILLISECONDS)
        else:
            self._stop.wait(PAUSE_MILLISECONDS / 1000)
        self._publish_waiting()

    def _open(self) -> None:
        try:
            self._stream.open()
        except zmq.ZMQError as error:
            self._bind_after = self._monotonic() + REBIND_SECONDS
            self._errors.add(f"bind {self._settings.endpoint} and {self._settings.replay_endpoint}", error)
            return
        path = self._settings.address_file
        if path and self._stream.endpoint and self._stream.replay_endpoint:
            write_addresses(
                path.replace("{form}", self._form).replace("{rank}", str(self._rank)),
                self._stream.endpoint,
                self._stream.replay_endpoint,
            )

    def _publish_waiting(self) -> None:
        """Publish what waits now, in small batches; what comes meanwhile waits for the next turn."""
        for _ in range(-(-len(self._queue) // RECORDS_A_BATCH)):
            size = min(RECORDS_A_BATCH, len(self._queue))
            self._publish([self._queue.popleft() for _ in range(size)])
        self._publish_stats()

    def _publish_stats(self) -> None:
        now = self._monotonic()
        state = (self.sent, self.dropped, self._errors.count)
        due = self._stats_after if state != self._told else self._stats_after + HEARTBEAT_SECONDS
        if now < due:
            return
        self._stats_after = now + STATS_SECONDS
        self._publish([(self._stats, ())])
        self._told = (self.sent, self.dropped, self._errors.count)

    def _publish(self, drafts: list[Draft]) -> None:
        began = time.perf_counter_ns()
        if self._delta.full or self._epoch_bytes > self._settings.ring_bytes // 2:
            # Records point at records of their epoch, and the ring always holds the newest epoch whole.
            self._delta.reset()
            self._epoch_bytes = 0
            self._greeted = False
        batch: list[Record] = []
        if not self._greeted and self._greeting is not None:
            batch.append(self._greeting)
            self._greeted = True
        try:
            for build, values in drafts:
                made = build(*values)
                batch += made if isinstance(made, list) else [made]
            if not batch:
                return
            payload = self._encode(batch)
        except Exception:
            # Hashes of a batch that never left must not become anchors.
            self._delta.reset()
            self._greeted = False
            self._lost += len(drafts)
            raise
        self._epoch_bytes += len(payload)
        self.encode_ns += time.perf_counter_ns() - began
        self._stream.publish(payload)
        self.sent += len(batch)

    def _encode(self, batch: list[Record]) -> bytes:
        for record in batch:
            hashes = record.get("hashes")
            if isinstance(hashes, Sequence):
                record["hashes"] = self._delta.encode(hashes)
        return self._encoder.encode(batch)
