"""A disk that is really slow for one process: the kernel's block throttle, where root may set it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLKIO = Path("/sys/fs/cgroup/blkio")


def can_throttle() -> bool:
    """Whether this machine lets us: cgroup v1's blkio controller, and root."""
    return os.getuid() == 0 and (BLKIO / "blkio.throttle.write_bps_device").exists()


@contextmanager
def slow_disk(pid: int, folder: Path, bytes_per_second: int) -> Iterator[None]:
    """Let a process write no faster than this to the disk a folder is on: its flushes wait for the device."""
    group = BLKIO / f"tierscope-{pid}"
    group.mkdir()
    try:
        device = _whole_disk(folder.stat().st_dev)
        (group / "blkio.throttle.write_bps_device").write_text(f"{device} {bytes_per_second}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            (BLKIO / "cgroup.procs").write_text(left)
        group.rmdir()


def _whole_disk(device: int) -> str:
    """Numbers of the disk that a device is, or is a partition of: only whole disks are throttled."""
    numbers = f"{os.major(device)}:{os.minor(device)}"
    where = Path(f"/sys/dev/block/{numbers}").resolve()
    return (where.parent / "dev").read_text().strip() if (where / "partition").exists() else numbers
