"""Whose turn it is to write: always the owner's in a file; one collector's after the other in a lake.

DuckLake refuses a commit only where two transactions changed rows of the same table, so every turn in a lake
changes the one row of `lake_turns`: of two that did not see each other only one can be committed, whatever
they wrote, and however long one of them was stopped in between. A lock in PostgreSQL makes them queue, so
that this is the exception. Who does not get the lock in time goes on without it: the row decides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import duckdb

from tierscope.storage.database import Database
from tierscope.storage.lake.place import ask_postgres, tell_postgres
from tierscope.storage.views import VIEWS

log = logging.getLogger(__name__)

WRITING_LOCK = 0x7469_6572
"""PostgreSQL's advisory lock that writers of a lake queue for."""

LOCK_WAIT_MILLISECONDS = 5000

_TABLE = (
    "CREATE TABLE IF NOT EXISTS lake_turns (turn BIGINT NOT NULL, forgotten BIGINT NOT NULL, views VARCHAR)"
)
_VIEWS = blake2b("".join(part for view in VIEWS for part in view.ddl()).encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class Turn:
    """One transaction: its cursor, and what others did since this process wrote last.

    `others_wrote` and `others_forgot` (rows that chains may rest on) ask for what is remembered to be read
    anew. `idle` set by the body says that it wrote nothing; `forgets`, that it deleted such rows.
    """

    cursor: duckdb.DuckDBPyConnection
    others_wrote: bool = False
    others_forgot: bool = False
    idle: bool = False
    forgets: bool = False


class Turns(Protocol):
    """Hands out turns to write."""

    def turn(self) -> AbstractContextManager[Turn]:
        """A transaction: committed at the end of the body, rolled back on any error."""
        ...


class OwnersTurns:
    """Of a file: nobody else writes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """See `Turns`."""
        with self._database.transaction() as cursor:
            yield Turn(cursor)


class LakeTurns:
    """Of a lake: see this module. Not thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: tuple[int, int] | None = None

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """See `Turns`. Raises `StoreContended` where another collector was first."""
        with self.queued(), self._database.transaction() as cursor:
            row = cursor.execute("SELECT turn, forgotten FROM lake_turns").fetchone()
            assert row is not None, "a lake is made with its row"
            now, forgotten = row
            seen, self._seen = self._seen, None
            turn = Turn(cursor, seen is None or seen[0] != now, seen is None or seen[1] != forgotten)
            yield turn
            if not turn.idle:
                now, forgotten = now + 1, forgotten + turn.forgets
                cursor.execute("UPDATE lake_turns SET turn = ?, forgotten = ?", [now, forgotten])
        self._seen = now, forgotten

    @contextmanager
    def queued(self, lock: int = WRITING_LOCK) -> Iterator[None]:
        """Hold the lock of writers, or none where it is not to be had in time."""
        with self._database.reading() as cursor:
            cursor.begin()
            with rolled_back(cursor):
                try:
                    tell_postgres(cursor, f"SET LOCAL lock_timeout = {LOCK_WAIT_MILLISECONDS}")
                    ask_postgres(cursor, f"SELECT pg_advisory_xact_lock({lock})::text AS held")
                except duckdb.Error as error:
                    if "lock timeout" not in str(error):
                        raise
                    log.info("whoever writes the lake takes longer than %d ms", LOCK_WAIT_MILLISECONDS)
                yield


def views_are_ours(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether the views of a lake are those of this release: each change of them is a state of its own."""
    cursor.execute(_TABLE)
    row = cursor.execute("SELECT views FROM lake_turns").fetchone()
    if row is None:
        cursor.execute("INSERT INTO lake_turns VALUES (0, 0, NULL)")
    return row is not None and row[0] == _VIEWS


def say_views_are_ours(cursor: duckdb.DuckDBPyConnection) -> None:
    """Write down that they are."""
    cursor.execute("UPDATE lake_turns SET views = ?, turn = turn + 1", [_VIEWS])


@contextmanager
def rolled_back(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """End the cursor's transaction after the body: one that only holds a lock of PostgreSQL."""
    try:
        yield
    finally:
        try:
            cursor.rollback()
        except duckdb.Error:  # an interrupted or broken transaction has ended, and its lock with it
            log.debug("the transaction that held a lock had ended")
