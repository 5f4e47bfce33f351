"""Other processes: who is alive, below whom, what it runs, as /proc shows it; and how a child is ended."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

STOP_SECONDS = 20.0


def alive(pid: int) -> bool:
    """Whether it runs still: it is neither gone nor ended and not waited for yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def tree(pid: int, apart: Collection[int] = ()) -> list[int]:
    """A process and everything below it, but for what is counted apart and what is below that."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text("utf-8").split()
        except OSError:  # it ended meanwhile
            continue
        for child in children:
            found += tree(int(child), apart) if int(child) not in apart else []
    return found


def command_lines(pid: int) -> Iterator[tuple[int, list[str]]]:
    """What is alive below a process, with the words that it was started with."""
    for child in tree(pid)[1:]:
        try:
            words = Path(f"/proc/{child}/cmdline").read_text("utf-8").split("\0")
        except OSError:  # it ended meanwhile
            continue
        if alive(child):
            yield child, words


def running(pid: int, command: str) -> dict[int, list[str]]:
    """What is alive below a process and runs a tierscope command, with the words it was started with."""
    return {
        child: words
        for child, words in command_lines(pid)
        if "tierscope.cli" in words and command in words[words.index("tierscope.cli") :]
    }


def stop(child: subprocess.Popen[Any]) -> None:
    """Ask a child to stop and wait until it is gone; one that does not is killed."""
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
