"""A damaged store is set aside by name, and what can be trusted goes on; nothing is ever deleted."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.failures import StoreDamaged

log = logging.getLogger(__name__)


def log_of(path: Path) -> Path:
    """The write-ahead log of a store's file."""
    return path.with_name(f"{path.name}.wal")


def recover(path: Path, damage: StoreDamaged, at_unix_seconds: float) -> None:
    """Make it possible to open the store at `path` again; say what was set aside, and where.

    A damaged log is kept under another name and cut before its first damaged entry: what came before it
    is there, and what came after it is asked for again. A damaged file is moved away with its log. Where
    the system refuses that, all stays as it was: raises `StoreUnusable`.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_unix_seconds))
    try:
        if damage.log_bytes is not None and log_of(path).exists():
            _cut_log(path, damage, damage.log_bytes, stamp)
        else:
            set_aside(path, damage, stamp)
    except OSError as error:
        raise StoreUnusable(
            f"{damage.what}; and it cannot be set aside: {error.strerror or error}",
            where=str(path),
            fix="free some space, in a folder that can be written; its collector then tries again",
        ) from error


def _cut_log(path: Path, damage: StoreDamaged, log_bytes: int, stamp: str) -> None:
    aside = _free(path.with_name(f"{path.name}.wal.damaged-{stamp}"))
    try:
        shutil.copyfile(log_of(path), aside)
        os.truncate(log_of(path), log_bytes)
    except OSError:
        aside.unlink(missing_ok=True)  # else each try leaves one more
        raise
    log.warning("%s; the log is kept as %s and cut to %d bytes", damage.what, aside, log_bytes)


def set_aside(path: Path, damage: StoreDamaged, stamp: str) -> None:
    """Move a damaged file away, its log beside it, so that a new one begins at `path`."""
    aside = _free(path.with_name(f"{path.name}.damaged-{stamp}"))
    path.rename(aside)
    if log_of(path).exists():
        try:
            log_of(path).rename(log_of(aside))
        except OSError:
            aside.rename(path)  # a log is of use beside its file only
            raise
    log.warning(
        "%s; the file is kept as %s and a new one is begun: what exporters still hold is asked for again",
        damage.what,
        aside,
    )


def _free(path: Path) -> Path:
    """The path, or the first of its numbered neighbours that nothing is at."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
