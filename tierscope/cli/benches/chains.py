"""What the requests of a trace take in the store: time to commit their chains, and bytes on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np

from tierscope.cli.benches import storage
from tierscope.cli.benches.rows import Row, most_memory
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import RequestRecord, RequestStatus, TokenSplit
from tierscope.domain.trace import Trace, UInt64Array
from tierscope.storage.store import Store

MOST_ACCESSES = 6_000_000
"""What is taken of a trace at most, in whole requests: each access is an object of Python's on its way."""

REPLICAS = 4


def stored_chains(trace: Trace) -> Iterator[Row]:
    """Chains as deltas, from decoded records to commits."""
    requests = _beginning(trace)
    accesses = sum(len(request.block_hashes) for request in requests)
    seconds = storage.append_seconds(lambda: storage.batches(requests))
    yield Row("request chains to committed rows", accesses / seconds / 1e6, "M block accesses/s a core")


def stored_bytes(trace: Trace) -> Iterator[Row]:
    """The size of the same requests' file for each block access, beside a row an access through Arrow."""
    requests = _beginning(trace)
    accesses = [
        (request.admitted_unix_seconds, block) for request in requests for block in request.block_hashes
    ]
    with tempfile.TemporaryDirectory() as folder:
        ours, peers = Path(folder) / "ours.duckdb", Path(folder) / "peers.duckdb"
        with Store.open(ours, clock=lambda: storage.START) as store:
            storage.append(store, storage.batches(requests))
        with duckdb.connect(str(peers)) as table:
            storage.write_rows(table, accesses)
        size, peers_size = ours.stat().st_size, peers.stat().st_size
    peer = "Arrow, a row an access"
    yield Row("file for each block access", size / len(accesses), "bytes", peer, size / peers_size)
    yield most_memory()


def records_of(trace: Trace) -> Iterator[RequestRecord]:
    """Yield a trace's requests in order of time, as an exporter tells them; a session has one replica."""
    for row in np.argsort(trace.at_ms, kind="stable").tolist():
        prompt, session = int(trace.input_tokens[row]), int(trace.session[row])
        at = storage.START + float(trace.at_ms[row]) / 1000
        computed = min(prompt, 4 * trace.block_tokens)
        yield RequestRecord(
            engine=EngineId("bench", "bench", f"bench-{session % REPLICAS}"),
            model="bench",
            request_id=str(row),
            attempt=0,
            status=RequestStatus.SERVED,
            tokens=TokenSplit(prompt, l0=prompt - computed, computed=computed),
            block_tokens=trace.block_tokens,
            block_hashes=tuple(
                _hashes(
                    trace.block_ids[trace.offsets[row] : trace.offsets[row + 1]].astype(np.uint64)
                ).tolist()
            ),
            arrived_unix_seconds=at,
            admitted_unix_seconds=at,
            ttft_seconds=0.1,
            session_hash=session + 1,
        )


def _beginning(trace: Trace) -> list[RequestRecord]:
    """The first requests in order of time, as many as have no more accesses than are taken."""
    requests: list[RequestRecord] = []
    accesses = 0
    for request in records_of(trace):
        accesses += len(request.block_hashes)
        if accesses > MOST_ACCESSES and requests:
            break
        requests.append(request)
    return requests


def _hashes(ids: UInt64Array) -> UInt64Array:
    """Block ids as 64 bits that look like hashes: splitmix64, which maps no two of them to one."""
    mixed = (ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
