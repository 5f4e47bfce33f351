"""DuckDB's errors told as what is wrong, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tierscope.domain.errors import StoreUnusable


class StoreDamaged(StoreUnusable):
    """The contents of the store's file or log are not what was written there.

    `log_bytes` is the length up to which the log can be trusted, where it is the log that is damaged.
    """

    def __init__(self, what: str, *, where: str, fix: str, log_bytes: int | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.log_bytes = log_bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """What DuckDB's words mean: `sign` is searched in them, and its groups fill in `what`."""

    sign: str
    what: str
    fix: str
    kind: type[StoreUnusable] = StoreUnusable


_ASIDE = "nothing was changed; move the file away, or restore a copy of it"

_LOG_DAMAGED = re.compile(r"Corrupt WAL file: entry at byte position (?P<position>\d+)")
_DAMAGED = re.compile(
    r"(?P<why>Corrupt database file|Could not read enough bytes|Checksum[^.]*does not match)[^\n]*"
)
_REPLAY_FAILED = re.compile(r"Failure while replaying WAL file[^\n]*")
"""Stands before whatever made it fail: damage only where that is nothing the system or memory lacked."""

_DAMAGE_FIX = "its collector sets it aside and begins a new one when it starts; or restore a copy of it"

FILE_FAILURES = (
    Failure(
        r"Conflicting lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\)",
        "the store is in use by another process: PID {pid} ({program}) holds its lock",
        "ask the running collector's API with --url instead of opening its file, or stop that process",
    ),
    Failure(
        "different configuration than existing connections",
        "the store is already open in this process",
        "use the store that is open, or close it first",
    ),
    Failure(
        "not a valid DuckDB database file",
        "the file is not a DuckDB file",
        _ASIDE,
    ),
    Failure(
        r"version number (?P<theirs>\d+), but we can only read versions? (?P<ours>[^.]+)",
        "the file has DuckDB's file format {theirs}; this release reads {ours}",
        "open it with the release that wrote it, or a later one; nothing was changed",
    ),
    Failure(
        "No space left on device|File too large|Disk quota exceeded",
        "the disk is full; what was already stored is safe",
        "free some space; a collector goes on by itself once there is room",
    ),
    Failure(
        r"(?P<why>No such file or directory|Permission denied|Is a directory|Not a directory"
        r"|[Rr]ead-only( file system)?)",
        "the store cannot be opened or written: {why}",
        "name a file that can be written, in a folder that exists",
    ),
    Failure(
        r"Out of Memory Error|failed to (pin|allocate|reserve) [^\n]*(bytes|used)",
        "DuckDB had no memory left for a statement; what was already stored is safe",
        "raise collector.store_memory_bytes, and the memory of the pod with it",
    ),
    Failure(
        "Too many open files",
        "this process may open no more files",
        "raise its limit of open files (ulimit -n)",
    ),
    Failure(
        r"(?P<why>Input/output error|Stale file handle|Transport endpoint is not connected)",
        "the volume cannot be read or written: {why}",
        "look at the volume, and the node's kernel log; nothing was changed",
    ),
)


def found_among(failures: Iterable[Failure], text: str, where: str) -> StoreUnusable | None:
    """The first of the failures that DuckDB's words are a sign of; None: they are none of them."""
    for failure in failures:
        if (match := re.search(failure.sign, text, re.DOTALL)) is not None:
            return failure.kind(failure.what.format(**match.groupdict()), where=where, fix=failure.fix)
    return None


def explained(error: duckdb.Error, path: Path) -> StoreUnusable:
    """Turn what DuckDB says about the file at `path` into an error a person can act on."""
    text = str(error)
    if (found := _LOG_DAMAGED.search(text) or _DAMAGED.search(text)) is not None:
        return _damaged(found, path)
    if (told := found_among(FILE_FAILURES, text, str(path))) is not None:
        return told
    if (found := _REPLAY_FAILED.search(text)) is not None:
        return _damaged(found, path)
    first_line = text.strip().partition("\n")[0]
    if isinstance(error, duckdb.IOException | duckdb.FatalException | duckdb.InternalException):
        return StoreUnusable(f"the store is damaged: {first_line}", where=str(path), fix=_ASIDE)
    return StoreUnusable(
        f"the store refused a statement: {first_line}",
        where=str(path),
        fix="report this with the release that wrote the file",
    )


def _damaged(found: re.Match[str], path: Path) -> StoreDamaged:
    trusted = found.groupdict().get("position")
    return StoreDamaged(
        f"the store is damaged: {found.group()}",
        where=str(path),
        fix=_DAMAGE_FIX,
        log_bytes=None if trusted is None else int(trusted),
    )
