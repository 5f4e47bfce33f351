"""The stream's sockets: PUB for what is new, ROUTER for those who ask for what they missed.

Frames are those of vLLM's own KV events, so that one reader reads both: live `[topic, sequence, payload]`;
a question `["", first sequence]` is answered by `["", topic, sequence, payload]` for every payload of the
ring from there on, then by an end marker with sequence 8 x 0xFF and an empty payload.
"""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from tierscope_probe.ring import Ring

TOPIC = b""
END = b"\xff" * 8
LIVE_QUEUE_MESSAGES = 20_000
"""What one slow subscriber may leave waiting before it loses live messages; replay brings them back."""
ANSWERS_A_TURN = 64
BLOCKED_PAUSE_MILLISECONDS = 5
"""Pause before peers whose queues are full are tried again."""
MOST_QUESTIONS = 64


@dataclass
class _Question:
    peer: bytes
    next_sequence: int
    end_sequence: int
    """Later payloads reach the peer live."""


class Stream:
    """Numbers payloads, keeps the newest in a ring, and publishes them while its addresses are bound.

    Not thread-safe: all calls come from the sender's thread. Payloads published before `open` succeeds
    are in the ring and can be asked for afterwards.
    """

    def __init__(self, endpoint: str, replay_endpoint: str, *, ring_bytes: int) -> None:
        self._wanted = (endpoint, replay_endpoint)
        self._ring = Ring(ring_bytes)
        self._context: zmq.Context[Any] | None = None
        self._questions: deque[_Question] = deque()
        self._pause_milliseconds = 0
        self.endpoint: str | None = None
        self.replay_endpoint: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether both addresses are bound."""
        return self._context is not None

    def open(self) -> None:
        """Bind both addresses or neither. Raises zmq.ZMQError when one cannot be bound."""
        context: zmq.Context[Any] = zmq.Context()
        try:
            self._pub = context.socket(zmq.PUB)
            self._pub.setsockopt(zmq.SNDHWM, LIVE_QUEUE_MESSAGES)
            self._router = context.socket(zmq.ROUTER)
            # A full queue then refuses an answer instead of dropping it.
            self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._pub.bind(self._wanted[0])
            self._router.bind(self._wanted[1])
        except zmq.ZMQError:
            context.destroy(linger=0)
            raise
        self._context = context
        self.endpoint = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
        self.replay_endpoint = self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def close(self, linger_milliseconds: int = 200) -> None:
        """Free both addresses; what was published last may still go out for a moment."""
        if self._context is not None:
            self._context.destroy(linger=linger_milliseconds)
            self._context = None

    def publish(self, payload: bytes) -> int:
        """Number and keep a payload, send it to whoever listens; return its sequence."""
        sequence = self._ring.append(payload)
        if self.is_open:
            self._pub.send_multipart([TOPIC, sequence.to_bytes(8, "big"), payload])
        return sequence

    def serve(self, timeout_milliseconds: int) -> None:
        """Answer questions; wait for one no longer than the timeout. Needs an open stream."""
        if self._router.poll(self._pause_milliseconds if self._questions else timeout_milliseconds):
            self._hear(self._router.recv_multipart())
        sent = 0
        for _ in range(len(self._questions)):
            question = self._questions.popleft()
            answered, more = self._answer(question)
            sent += answered
            if more:
                self._questions.append(question)
        self._pause_milliseconds = 0 if sent else BLOCKED_PAUSE_MILLISECONDS

    def _hear(self, frames: list[bytes]) -> None:
        peer, first = frames[0], frames[-1]
        if len(frames) < 2 or len(first) != 8 or len(self._questions) >= MOST_QUESTIONS:
            return  # not a question, or too many at once: a reader asks again when nothing comes
        self._questions.append(_Question(peer, int.from_bytes(first, "big"), self._ring.next_sequence))

    def _answer(self, question: _Question) -> tuple[int, bool]:
        """Send some answers; return how many went out and whether more are to follow."""
        for sent in range(ANSWERS_A_TURN):
            question.next_sequence = max(question.next_sequence, self._ring.oldest_sequence)
            ended = question.next_sequence >= question.end_sequence
            payload = None if ended else self._ring.get(question.next_sequence)
            sequence = END if payload is None else question.next_sequence.to_bytes(8, "big")
            try:
                self._router.send_multipart(
                    [question.peer, b"", TOPIC, sequence, payload or b""], zmq.NOBLOCK
                )
            except zmq.Again:
                return sent, True
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                return sent, False  # the reader left
            if payload is None:
                return sent, False
            question.next_sequence += 1
        return ANSWERS_A_TURN, True


def write_addresses(path: str, endpoint: str, replay_endpoint: str) -> None:
    """Write the bound addresses as JSON, whole or not at all. Raises OSError."""
    target = Path(path)
    document = {"pid": os.getpid(), "endpoint": endpoint, "replay_endpoint": replay_endpoint}
    draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(target)
