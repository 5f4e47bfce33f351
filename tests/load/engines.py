"""Engines that speak from recordings: `python -m tests.load.engines ENGINES ENDPOINTS CYCLES CYCLE_SECONDS`.

One process plays all of them. It prints its addresses as a line of JSON, begins at a line on stdin that
says `go`, and takes orders there: `rate 10` plays ten times as fast, `hang 3` and `wake 3` stop and wake an
engine's page and streams, `shift 3600` sets the engines' clocks, `stop` ends it after the cycle that runs. It
answers each of them, and every second that passes, with a line of JSON about what it has sent and used.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import zmq

from tests.load.frames import (
    CONFIG,
    REPLICAS,
    STEP_SECONDS,
    Frame,
    Recording,
    recordings,
)
from tierscope.testbed.wire.stream import Stream

RING_BATCHES = 600
"""What a stream can replay: a minute of it."""
MOST_LATE_SECONDS = 30.0
"""What was not sent by then because the machine was busy is not caught up."""


class PlayedEngine:
    """One engine: its streams, its page, and how far it has come."""

    def __init__(self, number: int, recording: Recording, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.recording = recording
        self.hung = threading.Event()
        self._number = number
        self._key = (number // REPLICAS + 1) << 8
        self.hook = Stream(context, topic=b"hook", ring_batches=RING_BATCHES)
        self.events = Stream(context, topic=b"kv", ring_batches=RING_BATCHES)
        self.held: deque[tuple[Stream, bytes]] = deque()

    def step(self, number: int, cycle_steps: int, cycles: int, now_unix_seconds: float) -> None:
        """Send what is said in a step of the whole run: this cycle's, and what earlier ones left to say."""
        for cycle in range(max(0, cycles - 3), cycles):
            index = number - cycle * cycle_steps
            for stream, frames in ((self.hook, self.recording.hook), (self.events, self.recording.events)):
                frame: Frame | None = frames[index] if index < len(frames) else None
                if frame is None:
                    continue
                payload = frame.played(
                    began_unix_seconds=now_unix_seconds - (index + 1) * STEP_SECONDS,
                    key=self._key | (cycle + 1) & 0xFF,
                    tag=cycle * 4096 + self._number,
                )
                self.held.append((stream, payload))
        while self.held and not self.hung.is_set():
            stream, payload = self.held.popleft()
            stream.publish(payload)

    def page(self, elapsed_seconds: float, began: float) -> bytes:
        """Its /metrics."""
        return self.recording.page(elapsed_seconds, began_unix_seconds=began)


class Player:
    """Plays every engine, one step after another, against the clock."""

    def __init__(self, engines: int, cycles: int, cycle_seconds: float) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.recordings = recordings(cycle_seconds)
        self._cycle_steps = round(cycle_seconds / STEP_SECONDS)
        self.engines = [
            PlayedEngine(number, self.recordings[number % REPLICAS], self._context)
            for number in range(engines)
        ]
        self._poller = zmq.Poller()
        self._streams = {stream.router: stream for one in self.engines for stream in (one.hook, one.events)}
        for router in self._streams:
            self._poller.register(router, zmq.POLLIN)
        self._most_steps = cycles * self._cycle_steps
        self._tail = max(len(one.events) for one in self.recordings) - self._cycle_steps
        self._rate = 1.0
        self._shift = 0.0
        self.cycles = 0
        self.steps = 0
        self.late_seconds = 0.0
        self._started = time.time()
        self._stop = False

    @property
    def elapsed_seconds(self) -> float:
        """How far the traffic has come, in its own seconds."""
        return self.steps * STEP_SECONDS

    def page(self, number: int) -> bytes:
        """One engine's page."""
        return self.engines[number].page(self.elapsed_seconds, self._started)

    def order(self, words: list[str]) -> None:
        """Do what a line says."""
        match words:
            case ["rate", rate]:
                self._rate = float(rate)
            case ["shift", seconds]:
                self._shift = float(seconds)
            case ["hang", number]:
                self.engines[int(number)].hung.set()
            case ["wake", number]:
                self.engines[int(number)].hung.clear()
            case ["stop"]:
                self._most_steps = -(-self.steps // self._cycle_steps) * self._cycle_steps
            case _:
                raise ValueError(words)

    def run(self, orders: deque[list[str]], told: threading.Event) -> None:
        """Play until the last cycle's answers are over, then go on answering replays and pages."""
        due, said = time.monotonic(), time.monotonic()
        while self.steps < self._most_steps + self._tail:
            while orders:
                self.order(orders.popleft())
                self.say()
            now = time.monotonic()
            if now < due:
                self._serve(1000 * (due - now))
                continue
            self.late_seconds = max(self.late_seconds, now - due)
            self._step()
            self._serve(0)
            due = max(due + STEP_SECONDS / self._rate, now - MOST_LATE_SECONDS)
            if now - said >= 1.0:
                said = now
                self.say()
        self.say(done=True)
        while not told.is_set():
            self._serve(100)

    def _step(self) -> None:
        if self.steps % self._cycle_steps == 0 and self.steps < self._most_steps:
            self.cycles += 1
        for engine in self.engines:
            engine.step(self.steps, self._cycle_steps, self.cycles, time.time() + self._shift)
        self.steps += 1

    def _serve(self, milliseconds: float) -> None:
        for router, _ in self._poller.poll(milliseconds):
            self._streams[router].serve_replay()

    def say(self, *, done: bool = False) -> None:
        """A line about how it goes."""
        times = os.times()
        line = {
            "elapsed_seconds": self.elapsed_seconds,
            "cycles": self.cycles,
            "batches": sum(stream.batches for stream in self._streams.values()),
            "cpu_seconds": times.user + times.system,
            "late_seconds": round(self.late_seconds, 3),
            "done": done,
        }
        self.late_seconds = 0.0
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def serve_pages(player: Player) -> ThreadingHTTPServer:
    """Every engine's page below a path of its own; a hung engine's accepts and does not answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            number = int(self.path.split("/")[1])
            while player.engines[number].hung.is_set():
                time.sleep(0.05)
            body = player.page(number)
            try:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Who asked has gone."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main(engines: int, endpoints: int, cycles: int, cycle_seconds: int) -> None:
    """Play until stdin ends."""
    player = Player(engines, cycles, cycle_seconds)
    pages = serve_pages(player)
    described = [
        {
            "namespace": "load",
            "endpoint": f"e{number * endpoints // engines}",
            "replica": f"r{number}",
            "metrics_url": f"http://127.0.0.1:{pages.server_port}/{number}/metrics",
            "events_endpoint": one.events.endpoint,
            "events_replay_endpoint": one.events.replay_endpoint,
            "hook_endpoint": one.hook.endpoint,
            "hook_replay_endpoint": one.hook.replay_endpoint,
        }
        for number, one in enumerate(player.engines)
    ]
    truth = [
        {
            "tokens": [one.tokens.prompt, one.tokens.l0, one.tokens.l1, one.tokens.l2, one.tokens.computed],
            "requests": one.requests,
            "block_events": one.block_events,
        }
        for one in player.recordings
    ]
    sys.stdout.write(json.dumps({"engines": described, "truth": truth, "model": CONFIG.model}) + "\n")
    sys.stdout.flush()
    orders: deque[list[str]] = deque()
    ended = threading.Event()
    assert sys.stdin.readline() == "go\n"

    def listen() -> None:
        for line in sys.stdin:
            orders.append(line.split())
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    player.run(orders, ended)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
