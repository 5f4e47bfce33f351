"""The store as its owner sees it: append what feeds bring, keep advice, hand out readers."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tierscope.domain.batch import FeedBatch, FeedGap, FeedPosition
from tierscope.domain.deployment import Deployment
from tierscope.domain.selection import Selection
from tierscope.storage import copies, retention
from tierscope.storage.bridging import CounterBridge
from tierscope.storage.chains import ChainEncoder
from tierscope.storage.database import Database
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.failures import StoreDamaged
from tierscope.storage.forgetting import forget
from tierscope.storage.ingest import Appended, write
from tierscope.storage.intake import FeedItem, FeedLog, FeedState
from tierscope.storage.opening import open_to_write, prepare
from tierscope.storage.recovery import log_of, recover
from tierscope.storage.retention import Keeping
from tierscope.storage.rows import arrow_table, deployment_row
from tierscope.storage.schema import DEPLOYMENTS, FEED_POSITIONS


class Store:
    """The event store, owned by this process. Thread-safe; every failure is a `StoreUnusable`."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._appending = threading.Lock()
        self._encoder = ChainEncoder()
        self._bridge = CounterBridge()
        self._log = FeedLog({})
        self._horizons = retention.Horizons()
        self._remember()

    @classmethod
    def open(cls, path: str | Path, *, clock: Callable[[], float]) -> Store:
        """Open or create the store's file as its only owner.

        A file that is locked, newer than this release or no store at all raises `StoreUnusable` and is
        left as it was. A damaged one is set aside and a new one begun; a damaged end of its log is cut off.
        """
        database = open_to_write(Path(path).absolute(), clock)
        try:
            return cls(database, clock)
        except BaseException:
            database.close()
            raise

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._database.path

    def append(self, items: FeedBatch | Sequence[FeedItem]) -> Appended:
        """Commit batches and gaps, in order, with their feed positions, in one transaction.

        Batches at or before the stored position of their run are dropped, as are admissions that an
        earlier run of an exporter told, and whatever is told of hours that are sums already. Entries that
        fit no table are refused, counted and named; the rest of their batch is kept. On `StoreUnusable`
        nothing of `items` is stored: try again later.
        """
        with self._appending:
            plan = self._log.plan([items] if isinstance(items, FeedBatch) else items, self._clock())
            if not plan.states:
                return Appended(repeated_batches=plan.repeated_batches)
            try:
                with self._database.transaction() as cursor:
                    appended = write(cursor, plan, self._encoder, self._bridge, self._horizons.hourly)
            except StoreDamaged as damage:
                self._begin_anew(damage)
                raise
            except BaseException:
                self._encoder.forget()
                self._bridge.forget()
                raise
            self._log.commit(plan)
            return appended

    def _begin_anew(self, damage: StoreDamaged) -> None:
        """Set the damaged file aside and begin a new one; the next append tells what it misses of feeds."""
        with self._database.replaced():
            recover(self.path, damage, self._clock())
        prepare(self._database, self._clock())
        self._remember()

    def _remember(self) -> None:
        """Read what appending goes on from: positions of feeds, and how far the past is reduced."""
        self._encoder.forget()
        self._bridge.forget()
        self._log = _stored_log(self._database)
        with self._database.reading() as cursor:
            self._horizons = retention.horizons(cursor)

    def record_gap(self, gap: FeedGap) -> Appended:
        """Commit that these batches are lost for good, as coverage, and go on after them."""
        return self.append([gap])

    def position(self, exporter: str) -> FeedPosition | None:
        """The last batch of the exporter that is stored or known to be lost; None before the first."""
        with self._appending:
            return self._log.position(exporter)

    def record_deployment(self, deployment: Deployment) -> bool:
        """Keep the configuration of an endpoint if it differs from the latest one; True if it did."""
        row = deployment_row(deployment, self._clock())
        with self._database.transaction() as cursor:
            latest = cursor.execute(
                f"SELECT {_DEPLOYMENT_COLUMNS} FROM {DEPLOYMENTS.name} WHERE namespace = ? AND endpoint = ? "
                "ORDER BY since_unix_seconds DESC, rowid DESC LIMIT 1",
                [deployment.namespace, deployment.endpoint],
            ).fetchone()
            if latest is not None and latest[3:] == row[3:]:
                return False
            cursor.register("incoming", arrow_table(DEPLOYMENTS, [row]))
            cursor.execute(f"INSERT INTO {DEPLOYMENTS.name} BY NAME FROM incoming")
            return True

    def save_recommendation(
        self, namespace: str, endpoint: str, *, status: str, document: bytes, at_unix_seconds: float
    ) -> None:
        """Keep a recommendation (JSON); of one hour and status only the latest stays."""
        hour = at_unix_seconds // 3600 * 3600
        with self._database.transaction() as cursor:
            cursor.execute(
                "DELETE FROM recommendations WHERE namespace = ? AND endpoint = ? AND status = ? "
                "AND at_unix_seconds >= ? AND at_unix_seconds < ?",
                [namespace, endpoint, status, hour, hour + 3600],
            )
            cursor.execute(
                "INSERT INTO recommendations BY NAME SELECT ? AS namespace, ? AS endpoint, "
                "? AS at_unix_seconds, ? AS status, ? AS document",
                [namespace, endpoint, at_unix_seconds, status, document.decode()],
            )

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
        return deleted

    def _reduce(self, hourly: int | None, gone: int | None) -> Counter[str]:
        with self._appending:
            with self._database.transaction() as cursor:
                deleted = Counter[str]()
                now = self._clock()
                if hourly is not None:
                    deleted += retention.roll_up(cursor, hourly, now)
                if gone is not None:
                    deleted += retention.delete_sums(cursor, gone, now)
                horizons = retention.horizons(cursor)
            self._horizons = horizons
        if deleted.total():
            self.checkpoint()
        return deleted

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
        with self._appending:
            with self._database.transaction() as cursor:
                deleted = forget(cursor, selection)
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

    def reader(self) -> DuckDbReader:
        """A reader of this store, for any thread, while the store is open."""
        return DuckDbReader(self._database)

    def size_bytes(self) -> int:
        """Size on disk, the write-ahead log included."""
        files = (self.path, log_of(self.path))
        return sum(file.stat().st_size for file in files if file.exists())

    def used_bytes(self) -> int:
        """Bytes of the file that hold something, and the write-ahead log; the rest is used again."""
        with self._database.reading() as cursor:
            used = retention.used_bytes(cursor)
        log = log_of(self.path)
        return used + (log.stat().st_size if log.exists() else 0)

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file; False if a reader still needs the state before."""
        return self._database.checkpoint()

    def close(self) -> None:
        """Finish the running write, stop readers, and leave one clean file. Closing twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_DEPLOYMENT_COLUMNS = ", ".join(column.name for column in DEPLOYMENTS.columns)


def _stored_log(database: Database) -> FeedLog:
    with database.reading() as cursor:
        stored = cursor.execute(
            f"SELECT exporter, incarnation, feed, sequence, at_unix_seconds FROM {FEED_POSITIONS.name}"
        ).fetchall()
    return FeedLog({(exporter, incarnation): FeedState(*state) for exporter, incarnation, *state in stored})
