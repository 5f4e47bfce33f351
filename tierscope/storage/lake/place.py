"""A store that is a DuckLake: its catalogue in PostgreSQL, its rows in Parquet files, written by many."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.domain.lake_settings import LAKE_PREFIX, LakeSettings
from tierscope.storage.lake.credentials import s3_parameters
from tierscope.storage.lake.failures import lake_explained
from tierscope.storage.places import configured

CATALOGUE = "pg"
"""The name under which the lake's PostgreSQL is attached, for what DuckLake has not: locks, and leases."""

BEGAN = "tierscope began at "
"""What a transaction says of the snapshot it rests on, for the fence that its commit meets."""

_CONNECT_SECONDS = 10
_QUIET = "SET enable_progress_bar = false"
"""What waits for PostgreSQL is slow, and DuckDB would draw how it gets on, on the standard output."""

_PASSWORD = re.compile(r"\bpassword\s*=", re.IGNORECASE)


class LakePlace:
    """A lake, by the name in `store_path`. Raises `StoreUnusable` for a name that cannot be one.

    `session` names this process to PostgreSQL, so that others can end what it left behind.
    """

    shared = True

    def __init__(
        self,
        name: str,
        settings: LakeSettings | None = None,
        *,
        session: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.name = _checked(name)
        self.settings = settings or LakeSettings()
        self.session = session or session_name()
        self._catalogue = name.removeprefix(LAKE_PREFIX)
        self._environment = environment

    def connect(self, *, read_only: bool, threads: int) -> duckdb.DuckDBPyConnection:
        """See `Place`. Nothing is installed or downloaded: extensions are loaded from their files."""
        connection = duckdb.connect(
            ":memory:",
            config=configured(threads, autoinstall_known_extensions=False, autoload_known_extensions=False),
        )
        try:
            connection.execute(_QUIET)
            self._attach(connection, read_only=read_only)
        except BaseException:
            connection.close()
            raise
        return connection

    def enter(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """See `Place`."""
        cursor.execute(f"{_QUIET}; USE lake")

    def begun(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """See `Place`: it says in its commit where it began (`fence`)."""
        row = cursor.execute("FROM lake.current_snapshot()").fetchone()
        assert row is not None, "a lake that is made has a snapshot"
        began = quoted(f"{BEGAN}{row[0]}")
        cursor.execute(f"CALL lake.set_commit_message('tierscope', NULL, extra_info => {began})")

    def explained(self, error: duckdb.Error) -> StoreUnusable:
        """See `Place`."""
        return lake_explained(error, self.name)

    def size_bytes(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """See `Place`: the files in force and all of PostgreSQL's database."""
        ((of_catalogue,),) = ask_postgres(cursor, "SELECT pg_database_size(current_database()) AS size")
        return self.used_bytes(cursor) + int(of_catalogue)

    def used_bytes(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """See `Place`: the files in force; those that only earlier states of the lake have come on top."""
        row = cursor.execute(
            "SELECT coalesce(sum(file_size_bytes + delete_file_size_bytes), 0) "
            "FROM ducklake_table_info('lake')"
        ).fetchone()
        return int(row[0]) if row else 0

    def _attach(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        for extension in ("ducklake", "postgres_scanner"):
            self._load(connection, extension)
        server = (
            f"{self._catalogue} connect_timeout={_CONNECT_SECONDS} application_name={_value(self.session)}"
        )
        connection.execute(f"ATTACH {quoted(server)} AS {CATALOGUE} (TYPE postgres)")
        data_path = self.settings.data_path
        if _is_remote(data_path or _known_data_path(connection)):
            self._reach_objects(connection)
        options = [f"DATA_INLINING_ROW_LIMIT {self.settings.inline_rows:d}"]
        if read_only:
            options += ["READ_ONLY", "CREATE_IF_NOT_EXISTS false"]
        elif data_path is not None:
            options += [f"DATA_PATH {quoted(data_path if _is_remote(data_path) else _folder(data_path))}"]
        else:
            options += ["CREATE_IF_NOT_EXISTS false"]
        connection.execute(f"ATTACH {quoted(LAKE_PREFIX + server)} AS lake ({', '.join(options)})")

    def _load(self, connection: duckdb.DuckDBPyConnection, extension: str) -> None:
        folder = self.settings.extension_folder
        file = _packaged(extension) if folder is None else Path(folder) / f"{extension}.duckdb_extension"
        if file is None or not file.is_file():
            raise StoreUnusable(
                f"DuckDB's extension {extension} is not here",
                where=str(folder or self.name),
                fix="install `tierscope[lake]`, or name a folder that has it in lake.extension_folder",
            )
        connection.execute(f"LOAD {quoted(file)}")

    def _reach_objects(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._load(connection, "httpfs")
        parameters = s3_parameters(self._environment)
        values = ", ".join(f"{name} {quoted(value)}" for name, value in parameters.items())
        try:
            connection.execute(f"CREATE OR REPLACE SECRET tierscope (TYPE s3, {values})")
        except duckdb.Error as error:  # its words may repeat the statement
            raise StoreUnusable(
                f"DuckDB does not take the credentials of the object store ({type(error).__name__})",
                where=self.name,
                fix="check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
            ) from None


def session_name() -> str:
    """A name for this process that no other has had."""
    return f"tierscope/{socket.gethostname()[:30]}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def ask_postgres(cursor: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query that PostgreSQL itself runs, in the transaction of the cursor."""
    return cursor.execute(f"FROM postgres_query('{CATALOGUE}', {quoted(query)})").fetchall()


def tell_postgres(cursor: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Let PostgreSQL itself run a statement, in the transaction of the cursor."""
    cursor.execute(f"CALL postgres_execute('{CATALOGUE}', {quoted(statement)})")


def quoted(value: object) -> str:
    """A value as SQL text."""
    return "'" + str(value).replace("'", "''") + "'"


def _value(value: str) -> str:
    """A value of a connection string of PostgreSQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _checked(name: str) -> str:
    catalogue = name.removeprefix(LAKE_PREFIX)
    if _PASSWORD.search(catalogue):
        raise StoreUnusable(
            "the name of a lake holds a password",
            where=LAKE_PREFIX + "…",
            fix="give the password in the file that PGPASSFILE names, or in PGPASSWORD",
        )
    if "=" not in catalogue or "://" in catalogue:
        raise StoreUnusable(
            "the name of a lake does not say where its PostgreSQL is",
            where=LAKE_PREFIX + "…",
            fix=f"write `{LAKE_PREFIX}dbname=lake host=postgres user=tierscope`",
        )
    return name


def _packaged(extension: str) -> Path | None:
    """The extension's file in the package that brings it."""
    try:
        package = files(f"duckdb_extension_{extension}")
    except ModuleNotFoundError:
        return None
    version = f"v{duckdb.__version__}"
    return Path(str(package / "extensions" / version / f"{extension}.duckdb_extension"))


def _is_remote(data_path: str | None) -> bool:
    return data_path is not None and "://" in data_path


def _folder(data_path: str) -> str:
    return f"{Path(data_path).absolute()}/"


def _known_data_path(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Where a lake that is made keeps its data; None for one that is not."""
    ((made,),) = ask_postgres(connection, "SELECT to_regclass('ducklake_metadata') IS NOT NULL AS made")
    if not made:
        return None
    found = ask_postgres(connection, "SELECT value FROM ducklake_metadata WHERE key = 'data_path'")
    return str(found[0][0]) if found else None
