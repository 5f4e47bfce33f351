"""A publisher that plays given frames: live ones when told to, replay answers when asked."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import zmq

from tierscope.feed.frames import END, pack_sequence

Frames = list[bytes]


def recorded_frames(path: Path) -> list[Frames]:
    """Every message of a capture, as its frames."""
    lines = path.read_text().splitlines()
    return [[base64.b64decode(frame) for frame in json.loads(line)["frames_b64"]] for line in lines]


def answers_from(
    messages: Sequence[tuple[int, bytes]], start: int, *, with_topic: bool = True
) -> list[Frames]:
    """What a publisher holding these messages answers, its end marker included."""
    topic = [b"topic"] if with_topic else []
    answers = [[b"", *topic, pack_sequence(sequence), payload] for sequence, payload in messages]
    return [*(answer for answer in answers if answer[-2] >= pack_sequence(start)), [b"", *topic, END, b""]]


class RecordedPublisher:
    """A PUB and a ROUTER with default limits, as in the engines; `answer` maps a start to its answers."""

    def __init__(self, answer: Callable[[int], list[Frames]], port: int | None = None) -> None:
        self.answer = answer
        self.asked: list[int] = []
        self._context = zmq.Context()
        self._live = self._context.socket(zmq.XPUB)
        self._router = self._context.socket(zmq.ROUTER)
        self._live.bind(f"tcp://127.0.0.1:{port or '*'}")
        self._router.bind("tcp://127.0.0.1:*")
        self.endpoint = self._live.getsockopt_string(zmq.LAST_ENDPOINT)
        self.replay_endpoint = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def await_subscriber(self) -> None:
        """Return once a subscription has arrived, so that nothing sent live is lost."""
        assert self._live.poll(10_000), "nobody subscribed"
        self._live.recv()

    def send(self, frames: Frames) -> None:
        """Send one live message."""
        self._live.send_multipart(frames)

    def _serve(self) -> None:
        while not self._stop.is_set():
            if not self._router.poll(10):
                continue
            peer, _, start = self._router.recv_multipart()
            self.asked.append(int.from_bytes(start, "big"))
            for frames in self.answer(self.asked[-1]):
                self._router.send_multipart([peer, *frames])

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._live.close(linger=0)
        self._router.close(linger=0)
        self._context.term()

    def __enter__(self) -> RecordedPublisher:
        return self

    def __exit__(self, *_) -> None:
        self.close()
