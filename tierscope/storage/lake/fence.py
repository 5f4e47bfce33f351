"""What a lake's PostgreSQL refuses: a commit that rests on rows or files that another one has replaced.

DuckLake compares a commit with those since its beginning. It misses two: those whose snapshots are expired
by then, so that what two collectors received is stored twice; and files that were joined, so that every row
that was being deleted from them is back. Therefore each transaction of ours writes down at which snapshot it
began, and a trigger, which is part of every commit, refuses it where rows of a table that it deletes from
have been deleted or moved since. Rows that are only added meet nobody.
"""

from __future__ import annotations

from tierscope.storage.database import Database
from tierscope.storage.lake.place import BEGAN, ask_postgres, tell_postgres

TRIGGER = "lake_fence"
"""The trigger's, its function's and its table's name. A fence of another kind is one of another name."""

FENCING_LOCK = 0x7469_6566
"""PostgreSQL's advisory lock of who builds the fence."""

_EVERY_TABLE = -1
"""A row of the fence that every commit moves on: none may come before one that there is."""

_BUILT = f"""
SELECT 1 AS built FROM pg_trigger
WHERE tgname = '{TRIGGER}' AND tgrelid = to_regclass('ducklake_snapshot_changes') AND tgenabled <> 'D'
"""
_BUILD = f"""
DO $build$ BEGIN
PERFORM pg_advisory_xact_lock({FENCING_LOCK});
CREATE TABLE IF NOT EXISTS {TRIGGER} (table_id bigint PRIMARY KEY, snapshot_id bigint NOT NULL);
CREATE OR REPLACE FUNCTION {TRIGGER}() RETURNS trigger LANGUAGE plpgsql AS $fence$
DECLARE
  began bigint := substring(NEW.commit_extra_info FROM '^{BEGAN}([0-9]+)$');
  changed bigint;
BEGIN
  FOR changed IN
    SELECT {_EVERY_TABLE} UNION
    SELECT one[2]::bigint FROM regexp_matches(NEW.changes_made, '([a-z_]+):([0-9]+)', 'g') AS one
    WHERE one[1] NOT IN ('inserted_into_table', 'inlined_insert')
    ORDER BY 1
  LOOP
    INSERT INTO {TRIGGER} AS known VALUES (changed, NEW.snapshot_id)
    ON CONFLICT (table_id) DO UPDATE SET snapshot_id = excluded.snapshot_id
    WHERE known.snapshot_id < excluded.snapshot_id
      AND (known.table_id = {_EVERY_TABLE} OR began IS NULL OR known.snapshot_id <= began);
    IF NOT FOUND THEN
      RAISE EXCEPTION '{TRIGGER}: table % has changed since snapshot %', changed, began;
    END IF;
  END LOOP;
  RETURN NULL;
END $fence$;
DROP TRIGGER IF EXISTS {TRIGGER} ON ducklake_snapshot_changes;
CREATE TRIGGER {TRIGGER} AFTER INSERT ON ducklake_snapshot_changes FOR EACH ROW EXECUTE FUNCTION {TRIGGER}();
END $build$
"""


def build_fence(database: Database) -> None:
    """Let PostgreSQL refuse what this module says from now on, whoever commits it."""
    with database.reading() as cursor:
        if not ask_postgres(cursor, _BUILT):
            tell_postgres(cursor, _BUILD)
