"""The tables of the shared pool: whose files fill it, and what moves between it and its clients."""

from __future__ import annotations

from tierscope.storage.columns import AT, FEED, NOT_SAID, SINCE, Column, Table

POOL_TRAFFIC = Table(
    "pool_traffic",
    "What one process counted of a pool's reads and writes in an interval; resets are bridged. The same "
    "bytes pass worker and client: sum over one `seen_by`, and over one `feed` where several exporters read "
    "it.",
    (
        FEED,
        Column("holder", "VARCHAR", "The pool."),
        Column("seen_by", "VARCHAR", "`worker`, `fuse` or `clients` (all, as the master sums them)."),
        Column("process", "VARCHAR", "The worker's host or the client's address; empty for all clients."),
        SINCE,
        AT,
        Column("read_bytes", "BIGINT", "Bytes read from the pool.", NOT_SAID),
        Column("written_bytes", "BIGINT", "Bytes written to the pool.", NOT_SAID),
        Column("read_seconds", "DOUBLE", "Time its reads took, added up; they overlap.", NOT_SAID),
        Column("write_seconds", "DOUBLE", "Time its writes took, added up.", NOT_SAID),
        Column("reads", "BIGINT", "Reads, of a part of a block each.", NOT_SAID),
        Column("writes", "BIGINT", "Writes, of a part of a block each.", NOT_SAID),
        Column("local_opens", "BIGINT", "Blocks opened past the worker: their bytes are hidden.", NOT_SAID),
        Column("remote_opens", "BIGINT", "Blocks opened over the network.", NOT_SAID),
    ),
    since=5,
)
POOL_FILES = Table(
    "pool_files",
    "The files of one kind and model in a pool's directory. Rows of one `holder`, `feed` and time are one "
    "complete scan and add up to the directory.",
    (
        FEED,
        Column("holder", "VARCHAR", "The pool."),
        Column("kind", "VARCHAR", "`chunk`, `empty`, `temp`, `dead_temp`, `metadata` or `foreign`."),
        Column("model", "VARCHAR", "The model as the files name it, `other` or `unknown`."),
        Column("at_unix_seconds", "DOUBLE", "When the scan ended."),
        Column("files", "BIGINT", "Files."),
        Column("size_bytes", "BIGINT", "Their bytes."),
    ),
    since=5,
)
