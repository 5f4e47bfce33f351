"""The files of a pool as one sorted array: 43 bytes a file, whatever the length of its name. Pure.

A file is known by 64 bits of its path's hash: with a million files, the chance that two of them are taken
for one is 3 in 100 million.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tierscope.domain.trace import Int64Array, UInt64Array

FILE = np.dtype(
    [
        ("path_key", "u8"),  # hash of the path; the array is sorted by it, and it is there once
        ("chunk_key", "u8"),  # chunk_hash and all that keeps chunks of one hash apart; 0: no chunk
        ("chunk_hash", "u8"),
        ("size_bytes", "i8"),
        ("modified", "u4"),  # unix seconds
        ("branch", "u4"),  # which folder of the root it lies under
        ("model", "u2"),
        ("kind", "u1"),
    ]
)
"""One file or folder of a pool's directory."""

FileArray = NDArray[np.void]
"""(n,) of FILE."""

BoolArray = NDArray[np.bool_]


class FileKind(IntEnum):
    """What a file is."""

    CHUNK = 1
    GROWING = 2
    """A chunk's file that is written in place and was written to moments ago: its size may grow."""
    EMPTY = 3
    """A chunk's file without a byte in it."""
    TEMPORARY = 4
    METADATA = 5
    FOREIGN = 6
    DIRECTORY = 7


def _flags(*kinds: FileKind) -> BoolArray:
    """A table to be indexed by kind."""
    flags = np.zeros(max(FileKind) + 1, dtype=np.bool_)
    flags[list(kinds)] = True
    return flags


IS_UNSETTLED = _flags(FileKind.GROWING, FileKind.EMPTY)
"""By kind: looked at again in each scan; what others were when first seen they stay."""

IS_SPECIAL = _flags(FileKind.GROWING, FileKind.EMPTY, FileKind.DIRECTORY)
"""By kind: more is to be done than to note that it is there."""

IS_CHUNK_PART = _flags(FileKind.CHUNK, FileKind.GROWING)
"""By kind: holds a part of a chunk that can be read."""

Row = tuple[int, int, int, int, int, int, int, int]
"""The fields of FILE in their order."""

ROWS_A_BLOCK = 1 << 16

NO_FILES: FileArray = np.empty(0, dtype=FILE)


def path_keys(names: Sequence[str], folder_key: int) -> UInt64Array:
    """Return the key of each name in one folder, (n,); keys hold within one process only."""
    hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names))
    return hashes.view(np.uint64) ^ np.uint64(folder_key)


def child_key(folder_key: int, name: str) -> int:
    """Return the key of a folder in a folder; the root's is 0."""
    return hash((folder_key, name)) & 0xFFFF_FFFF_FFFF_FFFF


def find(keys: UInt64Array, wanted: UInt64Array) -> tuple[Int64Array, BoolArray]:
    """Return for each wanted key its place in sorted keys, and whether it is there, (n,) each.

    A place may be used wherever there are keys at all, also for a key that is not there.
    """
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places, keys[places] == wanted


class FileBuffer:
    """Files in the order they are met, in a few large blocks that the system takes back when they go."""

    def __init__(self) -> None:
        self._blocks: list[FileArray] = []
        self._used = 0

    def append(self, rows: Sequence[Row]) -> None:
        """Add some rows, no more than a block holds."""
        if not self._blocks or self._used + len(rows) > ROWS_A_BLOCK:
            self._close_block()
            self._blocks.append(np.empty(ROWS_A_BLOCK, dtype=FILE))
            self._used = 0
        self._blocks[-1][self._used : self._used + len(rows)] = list(rows)
        self._used += len(rows)

    def take(self) -> list[FileArray]:
        """Return what was added, in pieces, and forget it."""
        self._close_block()
        blocks, self._blocks, self._used = self._blocks, [], 0
        return blocks

    def _close_block(self) -> None:
        if self._blocks:
            self._blocks[-1] = self._blocks[-1][: self._used]


def kept(files: FileArray, keep: BoolArray) -> FileArray:
    """Return the files to keep, in their order. The array given is used up: no second one is made."""
    size = int(np.count_nonzero(keep))
    if size == len(files):
        return files
    for name in FILE.names or ():
        files[name][:size] = files[name][keep]
    if _is_its_own(files):
        files.resize(size, refcheck=False)
        return files
    return files[:size].copy()


def _is_its_own(files: FileArray) -> bool:
    """Whether an array's memory can grow and shrink where it is: it has some, and shares it with no other."""
    return files.base is None and len(files) > 0


def _joined(parts: list[FileArray]) -> FileArray:
    """Put all parts together; the first one grows where it is, for a copy would need as much again."""
    files = parts.pop(0)
    size = len(files)
    if parts and _is_its_own(files):
        files.resize(size + sum(map(len, parts)), refcheck=False)
        for part in parts:
            files[size : size + len(part)] = part
            size += len(part)
    elif parts:
        files = np.concatenate([files, *parts])
    parts.clear()
    return files


def merged(parts: list[FileArray]) -> FileArray:
    """Return the files of all parts sorted, each once; empties `parts`, so that they can go meanwhile."""
    if not parts:
        return NO_FILES
    files = _joined(parts)
    order = np.argsort(files["path_key"], kind="stable")
    for name in FILE.names or ():
        files[name] = files[name][order]
    del order
    once = np.ones(len(files), dtype=np.bool_)
    np.not_equal(files["path_key"][1:], files["path_key"][:-1], out=once[1:])
    return kept(files, once)
