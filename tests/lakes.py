"""A PostgreSQL of the tests' own, and lakes in it: one server a session, one database a lake."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.outliving import ended_with_us
from tests.ports import free_port
from tierscope.domain.lake_settings import LAKE_PREFIX, LakeSettings

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
STOP_AND_REMOVE = 'folder=$1; shift; "$@"; rm -rf "$folder"'
TUNING = ("fsync=off", "full_page_writes=off", "max_connections=300")
FORGETFUL = "synchronous_commit=off"
"""Quicker; a server that crashes then loses what it said was committed in its last moments."""


@dataclass(frozen=True)
class Postgres:
    """A running server; everything may connect without a password, from this machine alone."""

    port: int
    folder: Path

    def create(self) -> str:
        """A new database's name."""
        name = f"lake_{uuid.uuid4().hex[:12]}"
        self.ask("postgres", f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def ask(self, database: str, statement: str) -> str:
        """Run a statement; what psql prints of it."""
        command = [BINARIES[-1] / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-qAt"]
        return subprocess.run(
            [*command, "-d", database, "-c", statement], check=True, capture_output=True, text=True
        ).stdout

    def restart(self, *, crash: bool) -> None:
        """End it, in order or not, and start it again."""
        control = (BINARIES[-1] / "pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w")
        _run(self.folder, *control, "-m", "immediate" if crash else "fast", "restart")

    def dump(self, lake: str) -> str:
        """Everything in a lake's database, as text."""
        database = lake.partition("dbname=")[2].split()[0]
        command = [BINARIES[-1] / "pg_dump", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return subprocess.run([*command, database], check=True, capture_output=True, text=True).stdout

    def lake(self, folder: Path | str, **settings: object) -> Lake:
        """A lake that nobody has made yet, its files in a folder or under `s3://`."""
        name = f"{LAKE_PREFIX}dbname={self.create()} host=127.0.0.1 port={self.port} user=postgres"
        return Lake(name, LakeSettings(data_path=f"{folder}/lake", **settings))


@dataclass(frozen=True)
class Lake:
    """What `Store.open` and `DuckDbReader.open` take."""

    name: str
    settings: LakeSettings

    def __iter__(self) -> Iterator[object]:
        return iter((self.name, self.settings))


def _user() -> list[str]:
    """What a command of a server begins with: it does not run as root."""
    return [] if os.getuid() else ["runuser", "-u", "postgres", "--"]


def _run(folder: Path, *command: object) -> None:
    subprocess.run([*_user(), *map(str, command)], check=True, capture_output=True, cwd=folder)


@contextmanager
def postgres(*, crashes: bool = False) -> Iterator[Postgres]:
    """Run a server in a folder of its own until the end of the body, or of this process.

    One that `crashes` keeps what it committed, as one set up for the purpose does.
    """
    folder = Path(tempfile.mkdtemp(prefix="ts-pg-"))
    if _user():
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    port = free_port()
    data, binary = folder / "data", BINARIES[-1]
    control = (binary / "pg_ctl", "-D", data)
    with ended_with_us(STOP_AND_REMOVE, folder, *_user(), *control, "-m", "immediate", "stop"):
        _run(folder, binary / "initdb", "-A", "trust", "-U", "postgres", "--no-sync", "-D", data)
        tuning = TUNING if crashes else (*TUNING, FORGETFUL)
        options = " ".join(f"-c {setting}" for setting in (*tuning, f"unix_socket_directories={folder}"))
        listen = f"-p {port} -c listen_addresses=127.0.0.1 {options}"
        _run(folder, *control, "-l", folder / "log", "-w", "-o", listen, "start")
        yield Postgres(port, folder)
