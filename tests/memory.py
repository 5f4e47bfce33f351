"""What processes hold in memory, in bytes, as /proc tells it."""

from __future__ import annotations

from pathlib import Path

SELF = "self"


def resident_bytes(pid: int | str = SELF) -> int:
    """Resident now. Raises `OSError` for a process that is gone."""
    return _status_bytes(pid, "VmRSS:")


def peak_bytes(pid: int | str = SELF) -> int:
    """The most that was resident so far. What `getrusage` says is of whoever started the process, too."""
    return _status_bytes(pid, "VmHWM:")


def forget_peak() -> None:
    """Count the peak of this process from here."""
    Path("/proc/self/clear_refs").write_text("5", "utf-8")


def _status_bytes(pid: int | str, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    _, found, rest = status.partition(name)
    if not found:  # it has ended, and is not waited for yet
        raise ProcessLookupError(f"process {pid} holds no memory")
    return int(rest.split()[0]) * 1024
