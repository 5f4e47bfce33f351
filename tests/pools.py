"""Pools for tests: names as caches write them, and a directory in memory that can fail, hang and change."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from exporters.mount.fetch import EntryKind, EntryStat, Space

NOW = 1_800_000_000.0
HASH_DIGITS = 64


def server_name(chunk: int, *, model="org/m", rank=0, world=1, group=0, salt=None) -> str:
    """A multiprocess server's file name for a chunk of a 256-bit hash whose low 64 bits are `chunk`."""
    packed = world << 24 | rank << 16 | world << 8 | rank
    name = f"{model.replace('/', '-SEP-')}@{packed:#010x}@{group:x}@{chunk:0{HASH_DIGITS}x}"
    return f"{name}.data" if salt is None else f"{name}@{salt}.data"


def engine_name(chunk: int, *, model="org/m", world=1, rank=0, dtype="half", ending=".data") -> str:
    """An in-process engine's file name for a chunk of a signed 64-bit hash."""
    signed = chunk - (1 << 64) if chunk >> 63 else chunk
    return f"{model.replace('/', '-SEP-')}@{world}@{rank}@{signed:x}@{dtype}{ending}"


def native_path(block: int, *, model="org_m", digest="0123456789ab", rank=0, group=0) -> str:
    """The path of a block in vLLM's own tier."""
    digits = f"{block * 0x9E3779B97F4A7C15 % (1 << 192):048x}{block:016x}"
    return f"{model}_{digest}_r{rank}/{digits[:3]}/{digits[3:5]}_g{group}/{digits}.bin"


def write(root: Path, path: str, size_bytes: int = 4, *, age_seconds: float = 600.0) -> Path:
    """Write one file below a root, last written so long before `NOW`."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size_bytes)
    os.utime(file, (NOW - age_seconds, NOW - age_seconds))
    return file


@contextmanager
def scanning(repository: Path, **settings):
    """The reports of another process that scans (see `pool_process`), once it has begun; it is killed."""
    command = [sys.executable, "-m", "tests.pool_process", json.dumps(settings)]
    process = subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True)
    try:
        reports = map(json.loads, process.stdout)
        next(reports)
        yield reports
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class MemoryMount:
    """A directory in memory: `tree` holds names, each with a size or the tree of a folder.

    `faults` are raised by (operation, path); `calls` counts operations; `hang` makes every call wait
    until it is cleared; `device` and `root` are file systems.
    """

    def __init__(self, tree=None, *, device=7, root=1, names_per_list=3):
        self.tree = {} if tree is None else tree
        self.device = device
        self.root = root
        self.names_per_list = names_per_list
        self.faults: dict[tuple[str, str], OSError] = {}
        self.calls: dict[str, int] = {}
        self.open_folders = 0
        self.before_call = lambda operation, path: None
        self.running = threading.Event()
        self.running.set()
        self.capacity_bytes = 1000
        self.used_bytes = 100

    def call(self, operation, path=""):
        self.running.wait()
        self.before_call(operation, path)
        self.calls[operation] = self.calls.get(operation, 0) + 1
        if (operation, path) in self.faults:
            raise self.faults[operation, path]

    def open(self):
        self.call("open")
        return MemoryFolder(self, self.tree, "")

    def space(self):
        self.call("space")
        return Space(self.capacity_bytes, self.used_bytes)

    def root_device(self):
        return self.root


class MemoryFolder:
    """One folder of a directory in memory."""

    def __init__(self, mount, tree, path):
        self.mount, self.tree, self.path = mount, tree, path
        mount.open_folders += 1

    @property
    def device(self):
        return self.mount.device

    def _below(self, name):
        return f"{self.path}/{name}".removeprefix("/")

    def lists(self):
        names = list(self.tree)
        for start in range(0, len(names), self.mount.names_per_list):
            self.mount.call("list", self.path)
            yield names[start : start + self.mount.names_per_list]

    def look(self, name):
        self.mount.call("look", self._below(name))
        if name not in self.tree:
            raise failure(errno.ENOENT)
        entry = self.tree[name]
        if isinstance(entry, dict):
            return EntryStat(EntryKind.DIRECTORY, 0, NOW - 600)
        size_bytes, age_seconds = entry if isinstance(entry, tuple) else (entry, 600)
        return EntryStat(EntryKind.FILE, size_bytes, NOW - age_seconds)

    def enter(self, name):
        self.mount.call("enter", self._below(name))
        if not isinstance(self.tree.get(name), dict):
            raise failure(errno.ENOENT)
        return MemoryFolder(self.mount, self.tree[name], self._below(name))

    def content(self, name, most_bytes):
        self.mount.call("content", self._below(name))
        return b'{"model_name": "org/m"}'[:most_bytes]

    def close(self):
        self.mount.open_folders -= 1


def failure(number: int) -> OSError:
    """The error of one number, with the system's own words."""
    return OSError(number, os.strerror(number))


def is_open(descriptor: int) -> bool:
    """Whether a file descriptor is in use."""
    try:
        return stat.S_IFMT(os.fstat(descriptor).st_mode) != 0
    except OSError:
        return False
