"""Whether a file is the one that was read."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, int, int]


def file_stamp(path: str | Path) -> Stamp:
    """Its change time, length and inode: Kubernetes exchanges the file behind a link. All 0 where none is."""
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
