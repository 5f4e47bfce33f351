"""Files that are read again when they change: keys, certificates, lists of who may do what."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tierscope.domain.errors import BadSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

_Stamp = tuple[int, int, int]


class WatchedFiles(Generic[T]):
    """What `read` makes of some files, as of their last state that it could use. Thread-safe.

    `read` raises `BadSettings` for what it cannot use: the first time that is the caller's, later it is a
    warning, once for each change, and what the files said before counts.
    """

    def __init__(self, paths: Sequence[str | Path], read: Callable[[], T]) -> None:
        self._paths = tuple(map(Path, paths))
        self._read = read
        self._lock = threading.Lock()
        # Before the reading: a change during it is then seen next time.
        self._stamps = self._look()
        self._value = read()

    @property
    def value(self) -> T:
        """What they say now."""
        with self._lock:
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._value = self._read()
                except BadSettings as error:
                    log.warning("what it said before counts: %s", error.problems[0].one_line())
            return self._value

    def _look(self) -> Sequence[_Stamp]:
        return tuple(map(_stamp, self._paths))


def _stamp(path: Path) -> _Stamp:
    """Its change time, length and inode: Kubernetes exchanges the file behind a link. All 0 where none is."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
