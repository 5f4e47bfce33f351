"""Long-running commands: how they announce themselves, wait, stop, and run one another as children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tierscope.cli.output import stderr
from tierscope.domain.errors import TierscopeError

STOP_SECONDS = 20.0
"""How long a child may take to close its files before it is killed."""


def announce(addresses: Mapping[str, str], *, as_json: bool) -> None:
    """Say that a process is up and where: one JSON line on stdout, or lines for people on stderr."""
    if as_json:
        sys.stdout.write(json.dumps(dict(addresses)) + "\n")
        sys.stdout.flush()
        return
    for name, address in addresses.items():
        stderr.print(f"{name:<22} {address}", markup=False)


_SAFELY = () if {"", str(Path.cwd())} & set(sys.path) else ("-P",)
"""A child finds modules where we do: not in a working folder whose api.py would hide ours."""

TIERSCOPE = (sys.executable, *_SAFELY, "-m", "tierscope.cli")
"""How to run ourselves, whatever is on the path."""


class Stopped(Exception):
    """Not an error: we were asked to stop while a child was coming up."""


class StopRequest:
    """Set by Ctrl-C, by SIGTERM, or by the end of the parent (with `lifeline`)."""

    def __init__(self, *, lifeline: bool = False) -> None:
        self._event = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        if lifeline:
            threading.Thread(target=self._watch_parent, name="lifeline", daemon=True).start()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()

    def _watch_parent(self) -> None:
        """Stop when stdin ends: the parent holds the other end, so it ends however the parent ends.

        The descriptor is read directly: a thread blocked inside sys.stdin would hold its lock at exit.
        """
        while os.read(0, 1024):
            pass
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until asked to stop, or for so long; returns whether to stop."""
        return self._event.wait(timeout_seconds)


def leave() -> NoReturn:
    """End this process although a thread computes on.

    An interpreter that ends by itself would pull the compiler of kernels from under it, and crash.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Child:
    """Another tierscope command as a child process, which cannot outlive us.

    Its stdin is a pipe from us (see `StopRequest`), its first stdout line the JSON it announced.
    Raises `TierscopeError` if it ends, or stays silent for `ready_seconds`, before it announced itself,
    and `Stopped` once `stop` is set meanwhile. In each case it is gone.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        program: Sequence[str] = TIERSCOPE,
        ready_seconds: float = 60.0,
        stop: StopRequest | None = None,
    ) -> None:
        self.name = f"tierscope {arguments[0]}"
        self._process = subprocess.Popen(
            [*program, *arguments, "--json", "--lifeline"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches us alone; we stop our children in order
        )
        try:
            self.addresses = self._read_announcement(ready_seconds, stop)
        except BaseException:
            self.stop()
            raise

    def _read_announcement(self, ready_seconds: float, stop: StopRequest | None) -> dict[str, str]:
        lines: list[str] = []
        stdout = self._process.stdout
        assert stdout is not None, "the child was started with a pipe"
        reader = threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        reader.start()
        deadline = time.monotonic() + ready_seconds
        while reader.is_alive() and time.monotonic() < deadline:
            if stop is not None and stop.is_set:
                raise Stopped
            reader.join(min(0.1, ready_seconds))
        if not lines:
            raise self._failure(f"did not come up within {ready_seconds:.0f} s", "still running")
        if not lines[0]:
            raise self._failure("did not come up", f"exit status {self._process.wait(STOP_SECONDS)}")
        return {str(name): str(address) for name, address in json.loads(lines[0]).items()}

    def _failure(self, what: str, state: str) -> TierscopeError:
        return TierscopeError(
            f"{self.name} {what}",
            where=f"process {self._process.pid}, {state}",
            fix="read its messages above; run it by itself to see more",
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def stop(self) -> int:
        """Ask it to stop, wait, kill it if it does not; returns its exit status."""
        if self.alive:
            self._process.terminate()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            stderr.print(f"{self.name} did not stop within {STOP_SECONDS:.0f} s and is killed", markup=False)
            self._process.kill()
            status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return status


class Restarter:
    """Keeps one child running: started again, after a growing pause, whenever it ends by itself."""

    FIRST_PAUSE_SECONDS = 0.5
    LONGEST_PAUSE_SECONDS = 30.0

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        program: Sequence[str] = TIERSCOPE,
        stop: StopRequest | None = None,
    ) -> None:
        self._arguments = tuple(arguments)
        self._program = tuple(program)
        self._stop = stop
        self._pause_seconds = self.FIRST_PAUSE_SECONDS
        self._due_seconds = 0.0
        self.child: Child | None = Child(self._arguments, program=self._program, stop=stop)
        self.restarts = 0

    @property
    def addresses(self) -> dict[str, str]:
        """What the child announced; empty while it is down."""
        return self.child.addresses if self.child is not None else {}

    @property
    def pid(self) -> int | None:
        """Process id of the child; None while it is down."""
        return self.child.pid if self.child is not None else None

    def check(self) -> None:
        """Start the child again if it is gone and its pause is over; call this often."""
        if self.child is not None and self.child.alive:
            return
        if self.child is not None:
            status = self.child.stop()
            stderr.print(f"{self.child.name} ended with status {status}; starting it again", markup=False)
            self.child = None
            self._due_seconds = time.monotonic() + self._pause_seconds
        if time.monotonic() >= self._due_seconds:
            self._start_again()

    def _start_again(self) -> None:
        try:
            self.child = Child(self._arguments, program=self._program, stop=self._stop)
        except Stopped:
            return
        except TierscopeError as error:
            stderr.print(error.one_line(), markup=False)
            self._pause_seconds = min(2 * self._pause_seconds, self.LONGEST_PAUSE_SECONDS)
            self._due_seconds = time.monotonic() + self._pause_seconds
            return
        self._pause_seconds = self.FIRST_PAUSE_SECONDS
        self.restarts += 1

    def stop(self) -> None:
        """Stop the child."""
        if self.child is not None:
            self.child.stop()
