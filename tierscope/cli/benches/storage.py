"""How fast what engines say becomes committed rows, next to other ways of writing them, and what it takes."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from exporters.vllm.events import decode_events
from exporters.vllm.residency import Residency
from tierscope.cli.benches.rows import Row, core_seconds, most_memory
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.events import BlockEvent, LedgerEntry
from tierscope.domain.identity import EngineId
from tierscope.feed.codec import decode_batch, encode_batch
from tierscope.storage.store import Store

ENGINE = EngineId("bench", "bench", "bench-0")
START = 1_700_000_000.0
EVENTS_UNIT = "M block events/s a core"
MESSAGES = 20_000
BLOCKS = 16
BLOCK_TOKENS = 16
EVENTS_A_BATCH = 500
BATCHES_A_COMMIT = 20
REPEATS = 3

MIX_STORES = (*[1] * 56, *[11] * 8, *[3] * 3, *[9] * 3, *[16] * 3, *[10] * 2, *[2] * 2, *[4] * 2, 12, 15)
"""Blocks of each store of a recorded run of vLLM with a small cache, every size as often as there."""

MIX_REMOVALS_A_STORE = 225 / 81
"""Removals of one block for each store of that run."""

EXECUTEMANY_ROWS = 2_000
"""A sample: it is so slow that its rate shows soon."""


def stored_mix() -> Iterator[Row]:
    """Stores and removals mixed as in a recorded run, token ids included, from bytes to commits."""
    yield Row("KV events to committed rows, a recorded run's mix", _wire_rate(mixed_payloads()), EVENTS_UNIT)


def stored_wire() -> Iterator[Row]:
    """The same way for stores of 16 blocks each."""
    payloads = list(_store_payloads(random.Random(1)))  # noqa: S311
    yield Row("KV events to committed rows, 16-block stores", _wire_rate(payloads), EVENTS_UNIT)


def stored_frames() -> Iterator[Row]:
    """What a collector does: feed batches as bytes to committed rows, beside one INSERT a block."""
    events = _events()
    frames = [encode_batch(batch) for batch in batches(events)]
    rows = _rows_a_block(events)
    ours = len(rows) / append_seconds(lambda: map(decode_batch, frames)) / 1e6
    sample = rows[:EXECUTEMANY_ROWS]
    peers = len(sample) / _table_seconds(_executemany, sample) / 1e6
    yield Row("feed batches to committed rows", ours, EVENTS_UNIT, "executemany", ours / peers)


def stored_events() -> Iterator[Row]:
    """Decoded batches to committed rows, beside a row a block through Arrow."""
    events = _events()
    published, rows = batches(events), _rows_a_block(events)
    ours = len(rows) / append_seconds(lambda: published) / 1e6
    peers = len(rows) / _table_seconds(_arrow, rows) / 1e6
    yield Row(
        "decoded batches to committed rows",
        ours,
        EVENTS_UNIT,
        "Arrow, a row a block",
        ours / peers,
    )
    yield most_memory()


def _wire_rate(payloads: Sequence[bytes]) -> float:
    """Millions of block events a second, from an engine's messages through exporter and feed to commits."""
    blocks = sum(len(event.block_hashes) for event in decoded(payloads))
    seconds = append_seconds(
        lambda: (decode_batch(encode_batch(batch)) for batch in batches(list(decoded(payloads))))
    )
    return blocks / seconds / 1e6


def append_seconds(published: Callable[[], Iterable[FeedBatch]]) -> float:
    """The least processor time to make batches and commit them to a store that is open."""
    least = float("inf")
    for _ in range(REPEATS):
        with (
            tempfile.TemporaryDirectory() as folder,
            Store.open(Path(folder) / "bench.duckdb", clock=lambda: START) as store,
        ):
            least = min(least, core_seconds(lambda: append(store, published())))
    return least


def append(store: Store, published: Iterable[FeedBatch]) -> None:
    """Commit batches as a collector does, some ten thousand rows at a time."""
    waiting = iter(published)
    while part := list(islice(waiting, BATCHES_A_COMMIT)):
        store.append(part)


def _table_seconds(
    insert: Callable[[duckdb.DuckDBPyConnection, Sequence[tuple[float, int]]], None],
    rows: Sequence[tuple[float, int]],
) -> float:
    """The least processor time to commit rows to a table of nothing but time and block."""
    least = float("inf")
    for _ in range(REPEATS):
        with (
            tempfile.TemporaryDirectory() as folder,
            duckdb.connect(str(Path(folder) / "bench.duckdb"), config={"threads": 2}) as table,
        ):
            table.execute(_ROW_A_BLOCK)
            least = min(least, core_seconds(lambda: insert(table, rows)))
    return least


_ROW_A_BLOCK = "CREATE TABLE blocks (at_unix_seconds DOUBLE NOT NULL, block_hash UBIGINT NOT NULL)"


def _executemany(table: duckdb.DuckDBPyConnection, rows: Sequence[tuple[float, int]]) -> None:
    table.executemany("INSERT INTO blocks VALUES (?, ?)", rows)


def write_rows(table: duckdb.DuckDBPyConnection, rows: Sequence[tuple[float, int]]) -> None:
    """Write a row a block through Arrow, as one would without us."""
    table.execute(_ROW_A_BLOCK)
    _arrow(table, rows)


def _arrow(table: duckdb.DuckDBPyConnection, rows: Sequence[tuple[float, int]]) -> None:
    for start in range(0, len(rows), 100_000):
        times, blocks = zip(*rows[start : start + 100_000], strict=True)
        columns = [pa.array(times, pa.float64()), pa.array(blocks, pa.uint64())]
        table.register("incoming", pa.table(columns, names=["at_unix_seconds", "block_hash"]))
        table.execute("INSERT INTO blocks FROM incoming")


def decoded(payloads: Sequence[bytes]) -> Iterator[BlockEvent]:
    """What an exporter makes of an engine's messages."""
    residency = Residency(str(ENGINE), "bench")
    for sequence, payload in enumerate(payloads):
        events, _ = residency.apply(decode_events(payload, where="bench"), sequence)
        yield from events


def _events() -> list[BlockEvent]:
    return list(decoded(list(_store_payloads(random.Random(1)))))  # noqa: S311


def batches(entries: Sequence[LedgerEntry]) -> list[FeedBatch]:
    """Entries as an exporter publishes them."""
    parts = range(0, len(entries), EVENTS_A_BATCH)
    return [
        FeedBatch(FeedPosition("bench", 1, n), START + n, tuple(entries[start : start + EVENTS_A_BATCH]))
        for n, start in enumerate(parts)
    ]


def _rows_a_block(events: Sequence[BlockEvent]) -> list[tuple[float, int]]:
    return [(event.at_unix_seconds, block) for event in events for block in event.block_hashes]


def _store_payloads(rng: random.Random) -> Iterator[bytes]:
    for number in range(MESSAGES):
        yield _payload(number, [_stored([rng.getrandbits(64) for _ in range(BLOCKS)])])


def mixed_payloads() -> list[bytes]:
    """An engine's messages with the sizes and the order of a recorded run."""
    return list(_mixed(random.Random(1)))  # noqa: S311  a repeatable workload, no secret


def _mixed(rng: random.Random) -> Iterator[bytes]:
    held: list[int] = []
    removals = 0.0
    for number in range(MESSAGES):
        blocks = [rng.getrandbits(64) for _ in range(rng.choice(MIX_STORES))]
        held += blocks
        events = [_stored(blocks)]
        removals += MIX_REMOVALS_A_STORE
        while removals >= 1 and held:
            removals -= 1
            gone = held.pop(rng.randrange(len(held)))
            events.append({"type": "BlockRemoved", "block_hashes": [gone], "medium": "GPU", "group_idx": 0})
        yield _payload(number, events)


def _payload(number: int, events: Sequence[dict[str, object]]) -> bytes:
    return msgspec.msgpack.encode([START + number / 100, events, 0])


def _stored(blocks: list[int]) -> dict[str, object]:
    return {
        "type": "BlockStored",
        "block_hashes": blocks,
        "parent_block_hash": None,
        "token_ids": list(range(len(blocks) * BLOCK_TOKENS)),
        "block_size": BLOCK_TOKENS,
        "medium": "GPU",
        "group_idx": 0,
    }
