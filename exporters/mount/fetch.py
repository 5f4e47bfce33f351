"""A mounted directory as the operating system answers for it; any call may hang as long as the mount does.

Every path is opened one name at a time below the root and never through a link, so nothing outside of the
directory is read whatever lies in it. Errors of single entries are `OSError`; `unreadable` makes of one
what a person is told.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Protocol

from tierscope.domain.errors import SourceUnreadable

NAMES_PER_LIST = 1024
"""Names handed on together: what is held in memory of a directory of any size."""


class EntryKind(Enum):
    """What an entry of a directory is, links not followed."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    """A link, a socket, a device: not opened and not followed."""


@dataclass(frozen=True, slots=True)
class EntryStat:
    """One entry: its kind, its size, and when it was last written."""

    kind: EntryKind
    size_bytes: int
    modified_unix_seconds: float


@dataclass(frozen=True, slots=True)
class Space:
    """What `statvfs` says of the whole file system, whoever uses it: there is no quota a volume claim."""

    capacity_bytes: int
    used_bytes: int


class Folder(Protocol):
    """One open directory."""

    @property
    def device(self) -> int:
        """The file system it lies on."""

    def lists(self) -> Iterator[list[str]]:
        """Yield its names, a few at a time, in the file system's order."""

    def look(self, name: str) -> EntryStat:
        """Return what one entry is."""

    def enter(self, name: str) -> Folder:
        """Open a directory in it, never a link."""

    def content(self, name: str, most_bytes: int) -> bytes:
        """Return the first bytes of a file in it, never a link's."""

    def close(self) -> None:
        """Give it back."""


class Mount(Protocol):
    """A directory that can be opened, and its file system."""

    def open(self) -> Folder:
        """Open the root; a link is followed here, for it is what the settings name."""

    def space(self) -> Space:
        """Return how large and how full the file system is."""

    def root_device(self) -> int:
        """Return the file system of `/`, where a volume that is not mounted leaves its directory."""


@dataclass(frozen=True, slots=True)
class OsMount:
    """The directory at a path."""

    path: str

    def open(self) -> Folder:
        """Open the root; a link is followed here, for it is what the settings name."""
        return OsFolder(os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def space(self) -> Space:
        """Return how large and how full the file system is."""
        answer = os.statvfs(self.path)
        return Space(
            capacity_bytes=answer.f_blocks * answer.f_frsize,
            used_bytes=(answer.f_blocks - answer.f_bfree) * answer.f_frsize,
        )

    def root_device(self) -> int:
        """Return the file system of `/`."""
        return Path("/").stat().st_dev


@dataclass(frozen=True, slots=True)
class OsFolder:
    """An open directory by its file descriptor."""

    descriptor: int

    @property
    def device(self) -> int:
        """The file system it lies on."""
        return os.fstat(self.descriptor).st_dev

    def lists(self) -> Iterator[list[str]]:
        """Yield its names, a few at a time, in the file system's order."""
        with os.scandir(self.descriptor) as entries:
            while names := [entry.name for entry in islice(entries, NAMES_PER_LIST)]:
                yield names

    def look(self, name: str) -> EntryStat:
        """Return what one entry is. Other threads run meanwhile, which `DirEntry` does not promise."""
        answer = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        return EntryStat(_kind(answer.st_mode), answer.st_size, answer.st_mtime)

    def enter(self, name: str) -> Folder:
        """Open a directory in it, never a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return OsFolder(os.open(name, flags, dir_fd=self.descriptor))

    def content(self, name: str, most_bytes: int) -> bytes:
        """Return the first bytes of a file in it, never a link's; not waiting for a writer of a pipe."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=self.descriptor), "rb") as file:
            return file.read(most_bytes)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    return EntryKind.DIRECTORY if stat.S_ISDIR(mode) else EntryKind.OTHER


GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""An entry was removed, or is another thing by now: what a scan meets in a directory in use."""

DENIED = {errno.EACCES, errno.EPERM}

DISCONNECTED = {
    errno.ENOTCONN,
    errno.ESTALE,
    errno.ENODEV,
    errno.ENXIO,
    errno.ETIMEDOUT,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
}
"""The whole mount is gone, not one entry of it."""


def unreadable(error: OSError, path: str) -> SourceUnreadable:
    """What a person is told when the directory itself cannot be read."""
    fix = "check that the volume is mounted at this path and its client is running; it is tried again"
    if error.errno in DENIED:
        fix = "let the exporter's user list this directory; it is tried again"
    if error.errno in GONE:
        fix = "name the directory that holds the chunk files, and mount its volume; it is tried again"
    return SourceUnreadable(
        f"the pool's directory cannot be read: {error.strerror or error}", where=path, fix=fix
    )
