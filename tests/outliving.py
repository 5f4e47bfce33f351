"""Servers of tests that end with the tests, also where these are killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_with_us(script: str, *arguments: object) -> Iterator[None]:
    """Run a shell script, given the arguments, once the body has ended or this process has, however.

    A process of its own waits for that: the pipe it reads ends with whoever holds the other end.
    """
    watcher = subprocess.Popen(
        ["sh", "-c", f"cat; {script}", "watcher", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal to all of the tests' processes is not for it
    )
    assert watcher.stdin is not None
    try:
        yield
    finally:
        watcher.stdin.close()
        watcher.wait()
