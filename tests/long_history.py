"""A history of very many block accesses: the requests of a trace, round after round, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np

from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import RequestRecord, RequestStatus, TokenSplit
from tierscope.domain.trace import Trace

START = 1_700_006_400.0
"""The beginning of an hour."""

REPLICAS = 4
REQUESTS_A_BATCH = 500


def batches(trace: Trace) -> Iterator[FeedBatch]:
    """Yield one round in order of time. A session has one replica."""
    order = np.argsort(trace.at_ms, kind="stable")
    for sequence, start in enumerate(range(0, len(order), REQUESTS_A_BATCH)):
        records = tuple(_record(trace, int(row)) for row in order[start : start + REQUESTS_A_BATCH])
        at = records[-1].admitted_unix_seconds
        yield FeedBatch(FeedPosition("history", 1, sequence), at, records)


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


def _record(trace: Trace, row: int) -> RequestRecord:
    blocks = trace.block_ids[trace.offsets[row] : trace.offsets[row + 1]].astype(np.uint64)
    session, prompt = int(trace.session[row]), int(trace.input_tokens[row])
    at = START + float(trace.at_ms[row]) / 1000
    computed = min(prompt, 4 * trace.block_tokens)
    return RequestRecord(
        engine=EngineId("prod", "chat", f"chat-{session % REPLICAS}"),
        model="claude",
        request_id=str(row),
        attempt=0,
        status=RequestStatus.SERVED,
        tokens=TokenSplit(prompt, l0=prompt - computed, computed=computed),
        block_tokens=trace.block_tokens,
        block_hashes=tuple(_spread(blocks).tolist()),
        arrived_unix_seconds=at,
        admitted_unix_seconds=at,
        ttft_seconds=0.1,
        session_hash=session + 1,
    )


def _spread(ids: np.ndarray) -> np.ndarray:
    """Block ids as 64 bits that look like hashes: splitmix64, which maps no two of them to one."""
    mixed = (ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
