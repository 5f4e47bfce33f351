"""What one more request costs exporter, collector and disk: what `tierscope plan` works with."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from exporters.admissions import Admissions
from exporters.engines import EngineFacts
from exporters.private import keyed_hash
from exporters.vllm.hook import decode_records
from tierscope.cli.benches import storage
from tierscope.cli.benches.rows import Row, core_seconds
from tierscope.domain.events import BlockEvent, LedgerEntry
from tierscope.domain.requests import RequestRecord
from tierscope.feed.codec import decode_batch, encode_batch
from tierscope.storage.store import Store

REQUESTS = 4_000
"""At each of the numbers of new blocks."""

NEW_BLOCKS = (8, 264)
"""Two points of a line: what an admission costs by itself, and what each of its new blocks adds."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time and bytes of some entries, from an engine's bytes to committed rows."""

    exporter_seconds: float
    collector_seconds: float
    feed_bytes: int
    stored_bytes: int


_PLACES: tuple[tuple[str, str, Callable[[Cost], float]], ...] = (
    ("exporter", "µs", lambda cost: cost.exporter_seconds * 1e6),
    ("collector", "µs", lambda cost: cost.collector_seconds * 1e6),
    ("feed", "bytes", lambda cost: cost.feed_bytes),
    ("store", "bytes", lambda cost: cost.stored_bytes),
)


def costs() -> Iterator[Row]:
    """An admission, a new block of its chain and a block event: time in both processes, bytes on the way."""
    _of_admissions(NEW_BLOCKS[0])  # what is done once is not what one more costs
    few, many = (_of_admissions(blocks) for blocks in NEW_BLOCKS)
    events, blocks = _of_events()
    for what, unit, of in _PLACES:
        each = [of(cost) / REQUESTS for cost in (few, many)]
        a_block = (each[1] - each[0]) / (NEW_BLOCKS[1] - NEW_BLOCKS[0])
        yield Row(f"{what}, an admission", each[0] - a_block * NEW_BLOCKS[0], unit)
        yield Row(f"{what}, a new block of its chain", a_block, unit)
        yield Row(f"{what}, a block event", of(events) / blocks, unit)


def _of_admissions(new_blocks: int) -> Cost:
    """Requests whose blocks are all new, one after another."""
    rng = random.Random(1)  # noqa: S311  a repeatable workload, no secret
    payloads = [_payload(number, new_blocks, rng) for number in range(REQUESTS)]
    admissions = Admissions(storage.ENGINE, EngineFacts("bench", storage.BLOCK_TOKENS), keyed_hash(b"k" * 16))
    records: list[RequestRecord] = []

    def read() -> None:
        for payload in payloads:
            records.extend(admissions.apply(decode_records(payload, where="bench").records).records)

    return _cost(core_seconds(read), records)


def _of_events() -> tuple[Cost, int]:
    """Stores and removals mixed as in a recorded run, and how many blocks they are of."""
    payloads = storage.mixed_payloads()
    events: list[BlockEvent] = []
    seconds = core_seconds(lambda: events.extend(storage.decoded(payloads)))
    return _cost(seconds, events), sum(len(event.block_hashes) for event in events)


def _cost(read_seconds: float, entries: Sequence[LedgerEntry]) -> Cost:
    batches = storage.batches(entries)
    frames: list[bytes] = []
    encode_seconds = core_seconds(lambda: frames.extend(map(encode_batch, batches)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.duckdb"
        Store.open(path, clock=lambda: storage.START).close()
        empty_bytes = path.stat().st_size
        with Store.open(path, clock=lambda: storage.START) as store:
            seconds = core_seconds(lambda: storage.append(store, map(decode_batch, frames)))
        stored = path.stat().st_size - empty_bytes
    return Cost(read_seconds + encode_seconds, seconds, sum(map(len, frames)), stored)


def _payload(number: int, new_blocks: int, rng: random.Random) -> bytes:
    at, name = storage.START + number / 100, f"request-{number}"
    hashes = [rng.getrandbits(64) for _ in range(new_blocks)]
    return msgspec.msgpack.encode(
        [
            {
                "t": "admit",
                "ts": at,
                "rid": name,
                "prompt": new_blocks * storage.BLOCK_TOKENS,
                "arrival": at,
                "hashes": hashes,
            },
            {"t": "first", "ts": at + 0.5, "rid": name, "ttft_s": 0.5},
            {"t": "finish", "ts": at + 1.0, "rid": name, "status": "FINISHED_STOPPED", "admitted": True},
        ]
    )
