"""One open store: cursors for many readers, transactions for one writer at a time."""

from __future__ import annotations

import logging
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.places import Place

log = logging.getLogger(__name__)

_CLOSE_WAIT_SECONDS = 0.05
_CLOSE_WAITS = 600


class Database:
    """The store at a place, shared by threads. Errors of DuckDB leave it as `StoreUnusable`.

    Every use gets a cursor of its own, which DuckDB gives a snapshot of its own: readers neither block
    the writer nor each other. Writers take turns. After an error that DuckDB calls fatal the store is
    opened anew by the next use.
    """

    def __init__(self, place: Place, *, read_only: bool = False, threads: int = 2) -> None:
        self.place = place
        self._read_only = read_only
        self._threads = threads
        self._memory_bytes: int | None = None
        self._idle = threading.Condition()
        self._writing = threading.RLock()
        self._in_use: set[duckdb.DuckDBPyConnection] = set()
        self._closed = False
        self._connection: duckdb.DuckDBPyConnection | None = self._connect()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            connection = self.place.connect(read_only=self._read_only, threads=self._threads)
            self._limit(connection)
        except duckdb.Error as error:
            raise self.place.explained(error) from error
        return connection

    def limit_memory(self, most_bytes: int) -> None:
        """Let DuckDB hold no more than this, from now on and after it was opened anew."""
        self._memory_bytes = most_bytes
        with self.reading() as cursor:
            self._limit(cursor)

    def _limit(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._memory_bytes is not None:
            connection.execute(f"SET memory_limit = '{self._memory_bytes}B'")
            if self.place.shared:  # else DuckDB puts what does not fit beside the file
                folder = Path(tempfile.gettempdir()) / f"tierscope-{uuid.uuid4()}"
                connection.execute("SET temp_directory = ?", [str(folder)])

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a cursor for one read; raises `StoreUnusable` once the store is closed."""
        cursor = self._borrow()
        try:
            self.place.enter(cursor)
            yield cursor
        except duckdb.Error as error:
            raise self._failed(error) from error
        finally:
            self._give_back(cursor)

    @contextmanager
    def transaction(self, *, beside_writer: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a cursor inside a transaction: committed at the end, rolled back on any error.

        One `beside_writer` does not wait for others of this process: of two that meet a lake refuses one.
        """
        with nullcontext() if beside_writer else self._writing, self.reading() as cursor:
            cursor.begin()
            try:
                self.place.begun(cursor)
                yield cursor
                cursor.commit()
            except BaseException:
                _roll_back(cursor)
                raise

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file; False if a reader still needs the state before.

        DuckDB tries again by itself as the log grows, and at closing.
        """
        with self._writing, self.reading() as cursor:
            try:
                cursor.execute("CHECKPOINT")
            except duckdb.TransactionException:
                return False
            return True

    def close(self) -> None:
        """Let a running write end, stop what still reads, and close the file; closing twice is fine."""
        with self._writing:
            with self._idle:
                self._closed = True
            self._disconnect()

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Stop everyone who reads and give the file back for the body's time; the next use opens it anew.

        Until the body has ended, well or not, others are told that the store is closed.
        """
        with self._writing:
            with self._idle:
                self._closed = True
            try:
                self._disconnect()
                yield
            finally:
                with self._idle:
                    self._closed = False

    def _borrow(self) -> duckdb.DuckDBPyConnection:
        with self._idle:
            if self._closed:
                raise StoreUnusable("the store is closed", where=self.place.name, fix="open it again")
            if self._connection is None:
                self._connection = self._connect()
            cursor = self._connection.cursor()
            self._in_use.add(cursor)
            return cursor

    def _give_back(self, cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.close()
        with self._idle:
            self._in_use.discard(cursor)
            self._idle.notify_all()

    def _failed(self, error: duckdb.Error) -> StoreUnusable:
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            with self._idle:
                self._connection = None
        if self._closed:
            return StoreUnusable("the store was closed meanwhile", where=self.place.name, fix="open it again")
        return self.place.explained(error)

    def _disconnect(self) -> None:
        # A cursor keeps the file open and locked, so the file is free only when all are back. An
        # interruption that comes between two statements is lost: it is repeated.
        with self._idle:
            for _ in range(_CLOSE_WAITS):
                for cursor in self._in_use:
                    cursor.interrupt()
                if self._idle.wait_for(lambda: not self._in_use, timeout=_CLOSE_WAIT_SECONDS):
                    break
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """End a transaction that failed; what went wrong with it is what the caller is told."""
    try:
        cursor.rollback()
    except duckdb.Error as error:  # its commit failed and ended it, or its connection is lost
        log.debug("a transaction was over before it was rolled back: %s", error)
