"""What a table of the store is made of, and the columns that several tables share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

DAY_SECONDS = 86400

ARROW_TYPES = {
    "BIGINT": pa.int64(),
    "BIGINT[]": pa.list_(pa.int64()),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "INTEGER": pa.int32(),
    "UBIGINT": pa.uint64(),
    "UBIGINT[]": pa.list_(pa.uint64()),
    "UINTEGER": pa.uint32(),
    "VARCHAR": pa.string(),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its SQL type, what it holds and in which unit, and what NULL means (None: never NULL).

    A column that came with a later version than its table is NULL in the rows written before.
    """

    name: str
    sql_type: str
    doc: str
    null_means: str | None = None
    since: int = 1


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, its columns in order, and the version of the store it came with.

    `partitions` are the columns by whose values a lake keeps rows in files of their own.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    since: int = 1
    partitions: tuple[str, ...] = ()

    def ddl(self) -> str:
        """The statement that creates the table."""
        lines = (
            f"  {column.name} {column.sql_type}{' NOT NULL' if column.null_means is None else ''}"
            for column in self.columns
        )
        return f"CREATE TABLE {self.name} (\n" + ",\n".join(lines) + "\n)"

    def additions(self, present: Collection[str]) -> tuple[str, ...]:
        """The statements that add the columns a file's table lacks to those `present` in it."""
        return tuple(
            f"ALTER TABLE {self.name} ADD COLUMN {column.name} {column.sql_type}"
            for column in self.columns
            if column.name not in present
        )

    def arrow_schema(self) -> pa.Schema:
        """The same columns as Arrow types, for batched inserts."""
        return pa.schema([(column.name, ARROW_TYPES[column.sql_type]) for column in self.columns])


NOT_SAID = "the source does not say"
EARLIER = "written by a release before the column"
NOT_SAID_OR_EARLIER = f"{NOT_SAID}, or {EARLIER}"
FEED = Column("feed", "UINTEGER", "The feed that brought the row; see `feed_positions`.")
ENDPOINT = (
    Column("namespace", "VARCHAR", "Namespace of the endpoint."),
    Column("endpoint", "VARCHAR", "Name of the endpoint."),
)
ENGINE = (
    *ENDPOINT,
    Column("replica", "VARCHAR", "The replica (pod) of the engine."),
    Column("rank", "INTEGER", "Data-parallel rank of the engine in its replica."),
    Column("model", "VARCHAR", "The served model's name."),
)
HOLDER = (
    Column("tier", "VARCHAR", "`l0`, `l1` or `l2`."),
    Column(
        "holder", "VARCHAR", "Who holds the blocks: an engine for L0, a cache server for L1, a pool for L2."
    ),
)
SINCE = Column("since_unix_seconds", "DOUBLE", "Start of the interval the row sums up.")
AT = Column("at_unix_seconds", "DOUBLE", "End of the interval the row sums up.")
SPLIT = (
    Column("prompt_tokens", "BIGINT", "Tokens of the prompt; always the sum of the five below."),
    Column("l0_tokens", "BIGINT", "Prompt tokens served by the GPU prefix cache."),
    Column("l1_tokens", "BIGINT", "Prompt tokens beyond L0 loaded from host memory."),
    Column("l2_tokens", "BIGINT", "Prompt tokens beyond L0 loaded from the shared pool."),
    Column("external_tokens", "BIGINT", "Prompt tokens loaded through a connector from a tier nothing told."),
    Column("computed_tokens", "BIGINT", "Prompt tokens whose KV values were computed."),
)
_NOT_YET = "written by a release before the column, into a lake that is not brought up yet"
DAY = Column("day", "DATE", "Day of the row's time, in UTC.", _NOT_YET, since=9)
HOUR = Column("hour", "INTEGER", "Hour the row sums up: unix seconds `// 3600`.")
