"""The store as its owner sees it: append what feeds bring, keep advice, hand out readers."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import duckdb

from tierscope.domain.batch import FeedBatch, FeedGap, FeedPosition
from tierscope.domain.deployment import Deployment
from tierscope.domain.lake_settings import LakeSettings
from tierscope.domain.selection import Selection
from tierscope.storage import advice_tables, copies, moving, retention
from tierscope.storage.bridging import CounterBridge
from tierscope.storage.chains import ChainEncoder
from tierscope.storage.database import Database
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.failures import StoreDamaged
from tierscope.storage.forgetting import forget
from tierscope.storage.ingest import Appended, stored_states, write
from tierscope.storage.intake import FeedItem, FeedLog, Plan
from tierscope.storage.lake.failures import StoreContended
from tierscope.storage.lake.leases import Leases
from tierscope.storage.lake.place import LakePlace
from tierscope.storage.lake.upkeep import compact, elected
from tierscope.storage.opening import open_lake, open_to_write, place_of, prepare
from tierscope.storage.places import FilePlace
from tierscope.storage.recovery import recover
from tierscope.storage.retention import Keeping
from tierscope.storage.rows import deployment_row
from tierscope.storage.turns import LakeTurns, OwnersTurns, Turn, Turns

T = TypeVar("T")

MOST_TRIES = 20
"""How often a transaction is tried in which another collector was first."""

FIRST_WAIT_SECONDS = 0.2


class Store:
    """The event store: a file that this process owns, or a lake that it shares.

    Thread-safe; every failure is a `StoreUnusable`.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._place = database.place
        self._clock = clock
        self._turns: Turns = LakeTurns(database) if self._place.shared else OwnersTurns(database)
        self._appending = threading.Lock()
        self._encoder = ChainEncoder()
        self._bridge = CounterBridge()
        self._log = FeedLog({})
        self._horizons = retention.Horizons()
        self._set_aside = False
        """Whether a damaged file was set aside, and none was begun in its place."""
        with database.reading() as cursor:
            self._remember(cursor)

    @classmethod
    def open(
        cls,
        store: str | Path,
        lake: LakeSettings | None = None,
        *,
        clock: Callable[[], float],
        memory_bytes: int | None = None,
    ) -> Store:
        """Open or create a store: a file as its only owner, or a lake beside others.

        DuckDB's own memory stays below `memory_bytes`; what needs more goes through the disk.

        A store that is locked, newer than this release, not to be reached or no store at all raises
        `StoreUnusable` and is left as it was. A damaged file is set aside and a new one begun; a damaged
        end of its log is cut off.
        """
        place = place_of(store, lake)
        if isinstance(place, LakePlace):
            database = open_lake(place, clock)
        else:
            database = open_to_write(place.path, clock)
        try:
            if memory_bytes is not None:
                database.limit_memory(memory_bytes)
            return cls(database, clock)
        except BaseException:
            database.close()
            raise

    @property
    def name(self) -> str:
        """The store's file, or the name of its lake."""
        return self._place.name

    @property
    def path(self) -> Path:
        """The store's file."""
        assert isinstance(self._place, FilePlace), "a lake is no file"
        return self._place.path

    def append(self, items: FeedBatch | Sequence[FeedItem]) -> Appended:
        """Commit batches and gaps, in order, with their feed positions, in one transaction.

        Batches at or before the stored position of their run are dropped, as are admissions that an
        earlier run of an exporter told, and whatever is told of hours that are sums already. Entries that
        fit no table are refused, counted and named; the rest of their batch is kept. On `StoreUnusable`
        nothing of `items` is stored: try again later.
        """
        told = [items] if isinstance(items, FeedBatch) else items

        def work(turn: Turn) -> tuple[Plan, Appended]:
            plan = self._log.plan(told, self._clock())
            if not plan.states:
                turn.idle = True
                return plan, Appended(repeated_batches=plan.repeated_batches)
            return plan, write(
                turn.cursor,
                plan,
                self._encoder,
                self._bridge,
                self._horizons.hourly,
                joins_coverage=not self._place.shared,
            )

        with self._appending:
            try:
                plan, appended = self._in_turn(work)
            except StoreDamaged as damage:
                self._begin_anew(damage)
                raise
            self._log.commit(plan)
            return appended

    def _in_turn(self, work: Callable[[Turn], T]) -> T:
        """Do a piece of writing in a transaction of its own, and again where another collector was first."""
        if self._set_aside:
            self._begin()
        for tries_left in range(MOST_TRIES, -1, -1):
            try:
                with self._turns.turn() as turn:
                    if turn.others_forgot:
                        self._encoder.forget()
                    if turn.others_wrote:
                        self._remember(turn.cursor)
                    done = work(turn)
            except BaseException as error:
                self._encoder.forget()
                self._bridge.forget()
                if not (tries_left and isinstance(error, StoreContended)):
                    raise
                time.sleep(random.uniform(0, FIRST_WAIT_SECONDS))  # noqa: S311  whoever waits less is first
            else:
                return done
        raise AssertionError("the last try returns or raises")

    def _begin_anew(self, damage: StoreDamaged) -> None:
        """Set the damaged file aside and begin a new one; the next append tells what it misses of feeds.

        Where a new one cannot be begun, for want of room, whoever writes next tries again.
        """
        with self._database.replaced():
            recover(self.path, damage, self._clock())
        self._set_aside = True
        self._begin()

    def _begin(self) -> None:
        prepare(self._database, self._clock())
        self._encoder.forget()
        with self._database.reading() as cursor:
            self._remember(cursor)
        self._set_aside = False

    def _remember(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Read what appending goes on from: positions of feeds, and how far the past is reduced."""
        self._bridge.forget()
        self._log = FeedLog(stored_states(cursor))
        self._horizons = retention.horizons(cursor)

    def record_gap(self, gap: FeedGap) -> Appended:
        """Commit that these batches are lost for good, as coverage, and go on after them."""
        return self.append([gap])

    def position(self, exporter: str) -> FeedPosition | None:
        """The last batch of the exporter that is stored or known to be lost; None before the first."""
        with self._appending:
            if self._place.shared:
                with self._database.reading() as cursor:
                    return FeedLog(stored_states(cursor)).position(exporter)
            return self._log.position(exporter)

    def record_deployment(self, deployment: Deployment) -> bool:
        """Keep the configuration of an endpoint if it differs from the latest one; True if it did."""
        row = deployment_row(deployment, self._clock())

        def work(turn: Turn) -> bool:
            turn.idle = not advice_tables.record_deployment(turn.cursor, row)
            return not turn.idle

        with self._appending:
            return self._in_turn(work)

    def save_recommendation(
        self, namespace: str, endpoint: str, *, status: str, document: bytes, at_unix_seconds: float
    ) -> None:
        """Keep a recommendation (JSON); of one hour and status only the latest stays."""
        row = (namespace, endpoint, at_unix_seconds, status, document.decode())
        with self._appending:
            self._in_turn(lambda turn: advice_tables.save_recommendation(turn.cursor, row))

    def retain(self, keeping: Keeping) -> Counter[str]:
        """Reduce the past to what `keeping` allows; return the rows deleted, by table.

        Rows older than `raw_seconds` become sums of their hour, sums older than `hourly_seconds` are
        deleted. While more than `most_bytes` are used the oldest eighth of the hours goes the same way;
        the hour that is being written stays.
        """
        now_hour = int(self._clock() // 3600)
        raw_hours = math.ceil(keeping.raw_seconds / 3600)
        hourly_hours = max(raw_hours, math.ceil(keeping.hourly_seconds / 3600))
        deleted = self._reduce(now_hour - raw_hours, now_hour - hourly_hours)
        while keeping.most_bytes is not None and self.used_bytes() > keeping.most_bytes:
            with self._database.reading() as cursor:
                raw, sums = retention.oldest_hours(cursor)
            if raw is not None and raw < now_hour:
                deleted += self._reduce(raw + max(1, (now_hour - raw) // 8), None)
            elif sums is not None and sums < now_hour:
                deleted += self._reduce(None, sums + max(1, (now_hour - sums) // 8))
            else:
                break
            if self._place.shared:  # files are freed by the next compaction, not at once
                break
        return deleted

    def _reduce(self, hourly: int | None, gone: int | None) -> Counter[str]:
        # Of rows that one transaction wrote and deleted, a lake's statistics keep the least and the most:
        # its MIN would find them. So sums are made in one, and deleted in another.
        deleted = Counter[str]()
        with self._appending:
            for reduce, before_hour in ((retention.roll_up, hourly), (retention.delete_sums, gone)):
                if before_hour is not None:
                    rows, self._horizons = self._in_turn(partial(self._reduced, reduce, before_hour))
                    deleted += rows
        if deleted.total():
            self.checkpoint()
        return deleted

    def _reduced(
        self,
        reduce: Callable[[duckdb.DuckDBPyConnection, int, float], Counter[str]],
        before_hour: int,
        turn: Turn,
    ) -> tuple[Counter[str], retention.Horizons]:
        deleted = reduce(turn.cursor, before_hour, self._clock())
        turn.idle = not deleted.total()
        return deleted, retention.horizons(turn.cursor)

    def backup(self, target: str) -> int:
        """See `Upkeep`."""
        with self._database.reading() as cursor:
            return copies.backup(cursor, Path(target))

    def to_parquet(self, folder: str) -> dict[str, int]:
        """See `Upkeep`."""
        with self._database.reading() as cursor:
            return copies.to_parquet(cursor, Path(folder))

    def forget(self, selection: Selection) -> dict[str, int]:
        """See `Upkeep`."""

        def work(turn: Turn) -> dict[str, int]:
            turn.forgets = True
            return forget(turn.cursor, selection)

        with self._appending:
            deleted = self._in_turn(work)
            self._encoder.forget()
            self._bridge.forget()
        self.checkpoint()
        return deleted

    def history_hours(self) -> dict[str, int]:
        """How many hours lie between now and the oldest row (`raw`) and the oldest sum (`hourly`)."""
        with self._database.reading() as cursor:
            raw, sums = retention.oldest_hours(cursor)
        now_hour = int(self._clock() // 3600)
        oldest = {"raw": raw, "hourly": sums}
        return {stage: now_hour - hour for stage, hour in oldest.items() if hour is not None}

    def take_in(self, file: Path) -> dict[str, int]:
        """Copy all of another store's file, which nobody has open, into this lake; return rows by table.

        All of it or nothing; all 0 where it is in the lake already. The file is brought up to this release
        first. Raises `StoreUnusable` for a file that is in use, or whose feeds the lake has from elsewhere.
        """
        Store.open(file, clock=self._clock).close()
        with self._appending:
            with self._database.reading() as cursor:
                moving.attach(cursor, file)
            try:
                return self._in_turn(lambda turn: moving.move(turn.cursor, file, self._clock()))
            finally:
                with self._database.reading() as cursor:
                    moving.detach(cursor)

    def leases(self, seconds: float) -> Leases | None:
        """The lease of this collector beside those of others; None for a file, which has one owner."""
        return Leases(self._database, seconds) if self._place.shared else None

    def reader(self, most_window_bytes: int | None = None) -> DuckDbReader:
        """A reader of this store, for any thread, while the store is open; its windows fit into so much."""
        return DuckDbReader(self._database, most_window_bytes)

    def size_bytes(self) -> int:
        """Size on disk, the write-ahead log included; of a lake that of its files and its catalogue."""
        if isinstance(self._place, FilePlace):  # also while it is closed
            return self._place.size_bytes()
        with self._database.reading() as cursor:
            return self._place.size_bytes(cursor)

    def used_bytes(self) -> int:
        """Bytes of these that hold something; the rest is used again, or freed later."""
        with self._database.reading() as cursor:
            return self._place.used_bytes(cursor)

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file; False if a reader still needs the state before.

        A lake has none: what is committed is where it stays.
        """
        return True if self._place.shared else self._database.checkpoint()

    def maintained(self, keep_snapshots_seconds: float) -> int | None:
        """Move a lake's rows into files, join small ones, delete old ones; return how many rows were moved.

        None: another collector does it at this moment, or the store is a file, which needs none of this.
        """
        if not isinstance(self._turns, LakeTurns):
            return None
        with elected(self._database) as chosen:
            return compact(self._database, self._turns, keep_snapshots_seconds) if chosen else None

    def close(self) -> None:
        """Finish the running write, stop readers, and leave one clean file. Closing twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
