"""Settings of a store that is a lake: many collectors, one PostgreSQL, Parquet files."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.documented import documented

LAKE_PREFIX = "ducklake:postgres:"
"""What the name of a lake starts with; a connection string of PostgreSQL, without a password, follows."""


def is_lake(store: object) -> bool:
    """Whether a store's name names a lake."""
    return str(store).startswith(LAKE_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSettings:
    """A store that is a DuckLake: where its data lies, and how its collectors share the work."""

    data_path: str | None = documented(
        "Folder or `s3://bucket/prefix/` of its Parquet files; needed to make a lake, which then knows it.",
        default=None,
    )
    extension_folder: str | None = documented(
        "Folder with DuckDB's extensions `ducklake`, `postgres_scanner` and, for S3, `httpfs` (files "
        "`NAME.duckdb_extension` of this DuckDB); none: those of the installed packages.",
        default=None,
    )
    inline_rows: int = documented(
        "Rows that one commit may leave in PostgreSQL, a table, instead of in a Parquet file of their own.",
        default=1000,
    )
    lease_seconds: float = documented(
        "Time after which a collector that says nothing has its exporters taken over by the others.",
        default=15.0,
    )
    keep_snapshots_seconds: float = documented(
        "Age at which a state of the lake, and files that only it has, are deleted; longer than any query.",
        default=3600.0,
    )
