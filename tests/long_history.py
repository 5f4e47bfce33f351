"""A history of very many block accesses: the requests of a trace, round after round, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import duckdb

from tierscope.cli.benches.chains import records_of
from tierscope.cli.benches.storage import START
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.trace import Trace

REQUESTS_A_BATCH = 500


def batches(trace: Trace) -> Iterator[FeedBatch]:
    """Yield one round in order of time."""
    records = records_of(trace)
    for sequence in count():
        batch = tuple(islice(records, REQUESTS_A_BATCH))
        if not batch:
            return
        yield FeedBatch(FeedPosition("history", 1, sequence), batch[-1].admitted_unix_seconds, batch)


def round_seconds(trace: Trace) -> int:
    """How much later the next round begins: whole hours, as many as have requests."""
    return 3600 * (int(trace.at_ms.max()) // 3_600_000 + 1)


def repeat(cursor: duckdb.DuckDBPyConnection, trace: Trace, rounds: int) -> None:
    """Write the store's one round again, so that there are so many: the same rows, later, under other ids."""
    seconds = round_seconds(trace)
    for number in range(1, rounds):
        name = number * 0x9E3779B97F4A7C15 % 2**64
        cursor.execute(
            f"""
            INSERT INTO requests BY NAME SELECT * REPLACE (
              xor(id, {name}::UBIGINT) AS id, xor(parent_id, {name}::UBIGINT) AS parent_id,
              CAST(hour + {number * seconds // 3600} AS INTEGER) AS hour,
              arrived_unix_seconds + {number * seconds} AS arrived_unix_seconds,
              admitted_unix_seconds + {number * seconds} AS admitted_unix_seconds
            ) FROM requests WHERE admitted_unix_seconds < {START + seconds}
            """
        )
