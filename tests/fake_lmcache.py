"""What the probe sees of an LMCache server, without LMCache: keys, events, a bus, recorded events."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

from tierscope_probe.errors import ErrorCount
from tierscope_probe.lmcache_events import Translator

NAMES = tuple(Translator(ErrorCount()).handlers)
FORBIDDEN = ("mp.tokens", "mp.vllm.block_allocation", "l1.keys.accessed")
"""Events with token ids, or published only if somebody subscribes."""

EventType = Enum("EventType", {name: name for name in (*NAMES, *FORBIDDEN)})


@dataclass(frozen=True)
class Key:
    """The name of one object."""

    chunk_hash: bytes
    model_name: str = "tiny"
    kv_rank: int = 0
    object_group_id: int = 0
    cache_salt: str = ""


@dataclass(frozen=True)
class Meta:
    """What L1 says of one object."""

    size_bytes: int
    backend: str = "dram"


@dataclass
class Event:
    """One event of the bus."""

    event_type: Enum
    timestamp: float = 0.0
    metadata: dict[str, object] = field(default_factory=dict)
    session_id: str = ""


class FakeBus:
    """Delivers each event at once; an exception of a subscriber fails the test."""

    def __init__(self) -> None:
        self.callbacks: dict[Enum, list[Callable[[Event], None]]] = defaultdict(list)
        self.subscribers: list = []
        self.dropped = 0

    def subscribe(self, event_type: Enum, callback: Callable[[Event], None]) -> None:
        self.callbacks[event_type].append(callback)

    def register_subscriber(self, subscriber) -> None:
        subscriber.register(self)
        self.subscribers.append(subscriber)

    def dropped_events_count(self) -> int:
        return self.dropped

    def publish(self, event: Event) -> None:
        for callback in self.callbacks.get(event.event_type, ()):
            callback(event)

    def stop(self) -> None:
        for subscriber in self.subscribers:
            subscriber.shutdown()


def build_context(bus: FakeBus | None = None, **config: object) -> SimpleNamespace:
    """What the factory of a server module is given."""
    return SimpleNamespace(
        server_context=SimpleNamespace(
            event_bus=bus or FakeBus(),
            chunk_size=64,
            token_hasher=SimpleNamespace(hash_algorithm_name="blake3"),
        ),
        mp_config=SimpleNamespace(instance_id="server-1"),
        config=dict(config),
    )


def event(name: str, at: float = 0.0, session: str = "", **metadata: object) -> Event:
    """One event by the bus's name for its type."""
    return Event(EventType(name), at, metadata, session)


def keys(*chunks: str, rank: int = 0, salt: str = "", model: str = "tiny") -> list[Key]:
    """Keys of named chunks."""
    return [Key(chunk.encode().rjust(32, b"."), model, rank, 0, salt) for chunk in chunks]


def metas(count: int, size_bytes: int = 100) -> list[Meta]:
    """As many equal objects."""
    return [Meta(size_bytes)] * count


def recorded_events(path: Path) -> Iterator[Event]:
    """Read a capture; bytes and keys were written as hex."""
    for line in path.read_text("utf-8").splitlines():
        said = json.loads(line)
        if said["event_type"] in EventType.__members__:
            yield Event(
                EventType(said["event_type"]),
                said["timestamp"],
                {name: _unwritten(name, value) for name, value in said["metadata"].items()},
                said["session_id"],
            )


def _unwritten(name: str, value: object) -> object:
    if name == "chunk_hashes":
        return [bytes.fromhex(each) for each in value]
    if name in ("keys", "succeeded_keys", "failed_keys"):
        return [Key(**{**each, "chunk_hash": bytes.fromhex(each["chunk_hash"])}) for each in value]
    if name == "meta":
        return [Meta(**each) for each in value]
    return value
