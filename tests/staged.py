"""Systems put together for a test: what runs, as processes or in this one, and how parts find each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

from tests.ports import unused_endpoint
from tierscope.cli.processes import Child
from tierscope.cli.settings_file import write_settings
from tierscope.domain.settings import FeedSource, Settings

READY_SECONDS = 300.0
"""How long a process may take to come up beside much else."""


class Staged(ABC):
    """Something that is entered: `_start` starts its parts one after the other.

    They end in the opposite order, those that had started also where a later one does not start.
    """

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._start(opened)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @abstractmethod
    def _start(self, opened: ExitStack) -> None:
        """Start everything, and put on the stack what ends it."""


class Publishing(Protocol):
    """The addresses of an exporter in this process."""

    feed_endpoint: str
    feed_replay_endpoint: str


def settings_file(folder: Path, name: str, settings: Settings) -> Path:
    """Write settings to a file of that name."""
    path = folder / f"{name}.yaml"
    write_settings(settings, path)
    return path


def started(
    opened: ExitStack,
    command: str,
    settings: Settings,
    folder: Path,
    *,
    name: str | None = None,
) -> Child:
    """A command as a child, up, with its settings in the folder; stopped when the stack is closed."""
    path = settings_file(folder, name or command, settings)
    child = Child([command, "--config", str(path)], ready_seconds=READY_SECONDS)
    opened.callback(child.stop)
    return child


def feed_of(name: str, addresses: Mapping[str, str] | Publishing) -> FeedSource:
    """The feed of an exporter that runs: as a child, by what it announced, or in this process."""
    if isinstance(addresses, Mapping):
        where = addresses["feed_endpoint"], addresses["feed_replay_endpoint"]
    else:
        where = addresses.feed_endpoint, addresses.feed_replay_endpoint
    return FeedSource(name=name, endpoint=where[0], replay_endpoint=where[1])


def feed_to_be(name: str) -> FeedSource:
    """The feed of an exporter that is to come up there, and again after it was killed."""
    return FeedSource(name=name, endpoint=unused_endpoint(), replay_endpoint=unused_endpoint())
