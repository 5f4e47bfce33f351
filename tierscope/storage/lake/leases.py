"""Which collectors of a lake live, by PostgreSQL's clock: each says so again before its lease ends."""

from __future__ import annotations

from tierscope.storage.database import Database
from tierscope.storage.lake.place import LakePlace, ask_postgres, quoted, tell_postgres

_TABLE = """
CREATE TABLE IF NOT EXISTS tierscope_collectors (
  member text PRIMARY KEY, until timestamptz NOT NULL
)
"""
_SAY = """
INSERT INTO tierscope_collectors VALUES ({member}, clock_timestamp() + {seconds} * interval '1 second')
ON CONFLICT (member) DO UPDATE SET until = excluded.until
"""
_END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
AND application_name IN (SELECT member FROM tierscope_collectors WHERE until < clock_timestamp())
AND application_name <> {member}
"""
_FORGET = "DELETE FROM tierscope_collectors WHERE until < clock_timestamp()"
_ALIVE = "SELECT member FROM tierscope_collectors WHERE until >= clock_timestamp() ORDER BY member"
_LEAVE = "DELETE FROM tierscope_collectors WHERE member = {member}"


class Leases:
    """The lease of this collector, and who else has one. Raises `StoreUnusable` while PostgreSQL is away."""

    def __init__(self, database: Database, seconds: float) -> None:
        assert isinstance(database.place, LakePlace), "a file has one owner"
        self.member = database.place.session
        self._database = database
        self._seconds = seconds
        with database.reading() as cursor:
            tell_postgres(cursor, _TABLE)

    def renew(self) -> tuple[str, ...]:
        """Say that this collector lives for another lease; return all that do.

        What collectors whose lease has ended left open in PostgreSQL is ended: a stopped process holds no
        lock, and what it was about to commit is not committed.
        """
        with self._database.reading() as cursor:
            for statement in (_SAY, _END_SESSIONS, _FORGET):
                said = statement.format(member=quoted(self.member), seconds=float(self._seconds))
                tell_postgres(cursor, said)
            return tuple(str(member) for (member,) in ask_postgres(cursor, _ALIVE))

    def leave(self) -> None:
        """Give the lease back, so that the others need not wait for its end."""
        with self._database.reading() as cursor:
            tell_postgres(cursor, _LEAVE.format(member=quoted(self.member)))
