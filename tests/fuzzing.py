"""What is thrown at every reader of bytes, and what must hold whatever was thrown.

A target takes bytes, hands them to a reader, and asserts that nothing was raised but our own refusal and
that everything the reader left out is counted. Seeds are real bytes; mutations are seeded and repeatable.
"""

from __future__ import annotations

import json
import random
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from exporters.admissions import Admissions
from exporters.engines import EngineFacts
from exporters.exposition import SeriesCache, parse_exposition
from exporters.private import keyed_hash
from exporters.vllm.events import decode_events
from exporters.vllm.hook import decode_records
from exporters.vllm.parse import parse_engine_page
from exporters.vllm.residency import Residency
from tests import fuzzing_caches, fuzzing_files, fuzzing_kube
from tests.captured import ENGINE, event_payloads, hook_payloads
from tests.ledgers import Ledger
from tierscope.domain.errors import BadInput
from tierscope.feed.codec import decode_batch, encode_batch

CAPTURES = Path(__file__).parent / "fixtures" / "captures"
INTERESTING = (
    b"", b"\0", b"\xff" * 8, b"\xc0", b"\xc1", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"NaN",
    b"+Inf", b"-1", b"1e999", b"1_0", b'"', b"\\", b"}", b"\n", b"#", b"\xed\xa0\x80",
    b"\x91" * 5000, b"\x81\xa1a" * 5000,
)  # fmt: skip
"""What breaks readers: empty, largest, unfinished and endlessly nested values, of both kinds of format."""

_cache = SeriesCache()


def page(data: bytes) -> None:
    """Every line of a metrics page is a sample, a comment, empty, or counted as garbage."""
    found = parse_exposition(data, where="fuzz", cache=_cache)

    lines = [line.strip() for line in data.decode("utf-8", "surrogateescape").split("\n")]
    told = [line for line in lines if line and not line.startswith("#")]
    assert len(found.series) == len(found.values)
    assert len(found.series) + found.garbage_lines == len(told)
    assert bool(found.garbage_lines) == (found.garbage is not None)
    engines = parse_engine_page(found, where="fuzz")
    for counters in engines.counters:
        assert all(tokens >= 0 for tokens in counters.at_first_token.values())


def events(data: bytes) -> None:
    """Every event of a batch is a change or an oddity, and a block is never held less than not at all."""
    try:
        batch = decode_events(data, where="fuzz")
    except BadInput:
        return
    items = msgspec.msgpack.decode(data, type=tuple[float, list[msgspec.Raw], int | None])[1]
    assert len(batch.changes) + sum(oddity.count for oddity in batch.oddities) == len(items)
    residency = Residency("holder", "fuzz", most_blocks=1000)
    for _ in range(2):
        found, _oddities = residency.apply(batch, 1)
        assert all(event.block_hashes for event in found)
    for pool in residency._pools.values():
        assert 0 <= len(pool) <= 1000
    list(residency.samples())


def hook(data: bytes) -> None:
    """Every item of a payload is a record or an oddity; every admission becomes a row or an oddity."""
    try:
        batch = decode_records(data, where="fuzz")
    except BadInput:
        return
    items = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    assert len(batch.records) + sum(oddity.count for oddity in batch.oddities) == len(items)
    admissions = Admissions(ENGINE, EngineFacts(), keyed_hash(b"k" * 16))
    outcomes = [admissions.apply(batch.records), admissions.restart()]
    admitted = sum(type(record).__name__ == "Admit" for record in batch.records)
    rows = sum(len(outcome.records) for outcome in outcomes)
    odd = Counter(oddity.what for outcome in outcomes for oddity in outcome.oddities)
    assert rows + odd["admission told twice"] + odd["admission that does not add up"] == admitted


def feed(data: bytes) -> None:
    """Every entry of a feed batch is read or counted as unknown, or the batch is refused by name."""
    unknown = Counter()
    try:
        batch = decode_batch(data, unknown=unknown)
    except BadInput:
        return
    envelope = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    items = msgspec.msgpack.decode(envelope[5], type=list[msgspec.Raw])
    assert len(batch.entries) + unknown.total() == len(items)


@dataclass(frozen=True)
class Target:
    """A reader, what must hold for it, and real bytes to begin with."""

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    slow: int = 1
    """How many times fewer inputs it is given than others: YAML takes milliseconds."""


@cache
def _pages() -> list[bytes]:
    whole = [path.read_bytes() for path in sorted(CAPTURES.rglob("*metrics_after.txt"))]
    # Pages are cut into pieces: a mutation of a short page is read a hundred times as often.
    return [
        b"\n".join(lines[start : start + 20])
        for lines in (text.split(b"\n") for text in whole)
        for start in range(0, len(lines), 20)
    ]


@cache
def _events() -> list[bytes]:
    recorded = (CAPTURES / "vllm/kv-event-encodings/payloads_by_version.jsonl").read_text("utf-8")
    encodings = [b64decode(json.loads(line)["payload_b64"]) for line in recorded.splitlines()]
    return encodings + event_payloads(CAPTURES / "vllm/run-b-offload-tiers/kv_events.jsonl")


@cache
def _hook() -> list[bytes]:
    return hook_payloads(CAPTURES / "observer/b_offloading")


@cache
def _feed() -> list[bytes]:
    return [encode_batch(batch) for batch in Ledger(seed=5).batches(50)]


TARGETS = {
    "page": Target(page, _pages),
    "events": Target(events, _events),
    "hook": Target(hook, _hook),
    "feed": Target(feed, _feed),
    "cache-records": Target(fuzzing_caches.cache_records, fuzzing_caches.cache_record_seeds),
    "controller": Target(fuzzing_caches.controller, fuzzing_caches.controller_seeds),
    "coordinator": Target(fuzzing_caches.coordinator, fuzzing_caches.coordinator_seeds),
    "documents": Target(fuzzing_caches.documents, fuzzing_caches.document_seeds),
    "roster": Target(fuzzing_kube.roster, fuzzing_kube.roster_seeds),
    "cluster": Target(fuzzing_kube.cluster, fuzzing_kube.cluster_seeds),
    "watch": Target(fuzzing_kube.watch, fuzzing_kube.watch_seeds),
    "storage": Target(fuzzing_files.storage, fuzzing_files.storage_seeds),
    "pool-files": Target(fuzzing_files.pool_files, fuzzing_files.pool_file_seeds),
    "frames": Target(fuzzing_files.frames, fuzzing_files.frame_seeds),
    "page-state": Target(fuzzing_files.page_state, fuzzing_files.page_state_seeds),
    "trace": Target(fuzzing_files.trace, fuzzing_files.trace_seeds),
    "settings": Target(fuzzing_files.settings, fuzzing_files.settings_seeds, slow=20),
}


def mutations(seeds: list[bytes], count: int, rng: random.Random) -> Iterator[bytes]:
    """So many mutated seeds: bits, bytes and pieces changed, dropped, doubled, moved and mixed."""
    for _ in range(count):
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
            data = rng.choice(MUTATORS)(data, rng, seeds)
        yield data


def _flip(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _byte(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _piece(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 9, 40)))


def _drop(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    start, end = _piece(data, rng)
    return data[:start] + data[end:]


def _double(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    start, end = _piece(data, rng)
    return data[:end] + data[start:]


def _interesting(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    start, end = _piece(data, rng)
    return data[:start] + rng.choice(INTERESTING) + data[end:]


def _splice(data: bytes, rng: random.Random, seeds: list[bytes]) -> bytes:
    other = rng.choice(seeds)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _value(data: bytes, rng: random.Random, _seeds: list[bytes]) -> bytes:
    return another_value(data, rng)


def another_value(data: bytes, rng: random.Random) -> bytes:
    """Another value somewhere inside a document of either kind; anything else stays as it is."""
    for codec in (msgspec.msgpack, msgspec.json):
        try:
            return codec.encode(_with_another(codec.decode(data), rng))
        except (msgspec.MsgspecError, UnicodeError, OverflowError, TypeError, ValueError, RecursionError):
            continue
    return data


def _with_another(value: object, rng: random.Random) -> object:
    if isinstance(value, list | dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        other = value.copy()
        other[key] = _with_another(value[key], rng)
        return other
    if isinstance(value, str) and value.startswith("{") and rng.random() < 0.9:
        return another_value(value.encode(), rng).decode("utf-8", "replace")  # an option that is a document
    return rng.choice(VALUES)


VALUES = (
    None, True, 0, 1, -1, 2**31, 2**63, 2**64 - 1, -(2**63), 0.5, float("nan"), float("inf"), -1e300, "",
    "GPU", "tape", "\0", "x" * 5000, "nan", "-inf", "1e999", "-1", "65535", "70000", "[" * 5000, "{}", b"",
    b"\xff" * 32, [], [[]], {}, {"type": "BlockStored"}, ["BlockRemoved"],
)  # fmt: skip

MUTATORS = (_flip, _byte, _cut, _drop, _double, _interesting, _splice, *[_value] * 7)
