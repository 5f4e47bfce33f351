"""What is kept of an hour once its rows are too old or too many: sums, in tables of their own.

Only `requests` and `block_events` are summed up. The other tables hold readings and intervals already;
theirs are joined to one row an hour, in place, and mean what they meant.
"""

from __future__ import annotations

from tierscope.storage.columns import ENGINE, HOLDER, HOUR, SPLIT, Column, Table

_NO_TTFT = "no first token, or the engine does not say"

HOURLY_REQUESTS = Table(
    "hourly_requests",
    "The admissions of an hour whose rows in `requests` are gone, by engine, model and status. "
    "`tier_hits_per_hour` has both.",
    (
        HOUR,
        *ENGINE,
        Column("status", "VARCHAR", "As in `requests`."),
        Column("requests", "BIGINT", "How many admissions."),
        *SPLIT,
        Column("ttft_requests", "BIGINT", "How many of them have a time to first token."),
        Column("ttft_mean_seconds", "DOUBLE", "Mean of these times.", _NO_TTFT),
        Column("ttft_p50_seconds", "DOUBLE", "Median of these times.", _NO_TTFT),
        Column("ttft_p90_seconds", "DOUBLE", "Nine of ten of these times are shorter.", _NO_TTFT),
        Column("ttft_p99_seconds", "DOUBLE", "99 of 100 of these times are shorter.", _NO_TTFT),
    ),
    since=3,
)
HOURLY_BLOCKS = Table(
    "hourly_blocks",
    "The block events of an hour whose rows in `block_events` are gone, by holder, action and reason.",
    (
        HOUR,
        *HOLDER,
        Column("action", "VARCHAR", "`stored` or `evicted`."),
        Column("reason", "VARCHAR", "Why blocks left; see `block_events`.", "they were stored"),
        Column("events", "BIGINT", "How many events."),
        Column("blocks", "BIGINT", "How many blocks, all events together."),
    ),
    since=3,
)
RETENTION = Table(
    "retention",
    "How far the past has been reduced; the highest hour of a stage is the one in force.",
    (
        Column(
            "stage",
            "VARCHAR",
            "`hourly`: earlier rows are sums of an hour; `gone`: earlier sums are deleted.",
        ),
        Column("before_hour", "INTEGER", "The first hour that is not reduced: unix seconds `// 3600`."),
        Column("at_unix_seconds", "DOUBLE", "When it was reduced so far."),
    ),
    since=3,
)
