"""The records of a probe, read from its replayable stream while its engine is up."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.engines.server import eventually
from tierscope.feed.messages import Message
from tierscope.feed.stream_subscriber import StreamSubscriber

Record = dict[str, object]

ENGINE_ID = re.compile(r"^(?:\d+_)?(?:chatcmpl|cmpl)-(?P<id>.+?)(?:-[0-9a-f]{8})?$")
PROMPT_INDEX = re.compile(r"-\d+$")


@dataclass(frozen=True)
class Addresses:
    """Where one engine's probe publishes."""

    endpoint: str
    replay_endpoint: str


def addresses(path: Path, seconds: float = 60.0) -> Addresses:
    """Wait for the file a probe writes its addresses to, and read it."""
    assert eventually(path.exists, seconds), f"the probe never wrote {path}"
    document = json.loads(path.read_text("utf-8"))
    return Addresses(_loopback(document["endpoint"]), _loopback(document["replay_endpoint"]))


def read_all(where: Addresses, *, quiet_seconds: float = 2.0) -> list[Record]:
    """Read a stream from its start until nothing but statistics came for a while.

    A probe with nothing else to say tells its statistics within a second, so they end whatever is whole.
    Statistics of long ago, in the middle of a replay, end nothing.
    """
    subscriber = StreamSubscriber(where.endpoint, where.replay_endpoint, source="probe under test")
    records: list[Record] = []
    busy_until = time.monotonic() + quiet_seconds
    try:
        while (remaining_seconds := busy_until - time.monotonic()) > 0:
            news = _receive(subscriber, remaining_seconds)
            records += news
            if any(record["t"] != "stats" for record in news):
                busy_until = time.monotonic() + quiet_seconds
        return records
    finally:
        subscriber.close()


def _receive(subscriber: StreamSubscriber, seconds: float) -> list[Record]:
    items = subscriber.receive(seconds)
    assert all(isinstance(item, Message) for item in items), f"the stream has gaps: {items}"
    return [
        record
        for item in items
        if isinstance(item, Message)
        for record in msgspec.msgpack.decode(item.payload)
    ]


def kinds(records: list[Record]) -> Counter[str]:
    """Count records by kind."""
    return Counter(str(record["t"]) for record in records)


def client_id(record: Record) -> str:
    """Return the X-Request-Id of a record: vLLM wraps it in a kind, a child, a prompt index and a suffix."""
    engine_id = str(record["rid"])
    found = ENGINE_ID.match(engine_id)
    assert found, f"{engine_id} is no engine id"
    chat = "chatcmpl-" in engine_id
    return found["id"] if chat else PROMPT_INDEX.sub("", found["id"])


def without_suffix(engine_id: str) -> str:
    """Return an engine's id as its API and spans have it."""
    return re.sub(r"-[0-9a-f]{8}$", "", engine_id)


def chains(records: list[Record]) -> dict[str, list[bytes]]:
    """Return every first admission's whole chain of block hashes by engine id, deltas resolved."""
    known: dict[bytes, list[bytes]] = {}
    resolved: dict[str, list[bytes]] = {}
    for record in records:
        hashes = record.get("hashes")
        if isinstance(hashes, dict):
            chain = known[hashes["anchor"]][: hashes["from"]] + hashes["new"]
        elif isinstance(hashes, list):
            chain = hashes
        else:
            continue
        resolved[str(record["rid"])] = chain
        for position, block_hash in enumerate(chain):
            known.setdefault(block_hash, chain[: position + 1])
    return resolved


def _loopback(endpoint: str) -> str:
    return endpoint.replace("0.0.0.0", "127.0.0.1").replace("*", "127.0.0.1")
